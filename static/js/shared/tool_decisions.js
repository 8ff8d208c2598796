/** Who allowed or refused a tool call, in words: on its card in the chat and in the story of a run. */

import { lasting } from "./formats.js";
import { grantLine, leftOfGrant } from "./grant_texts.js";
import { fill } from "./texts.js";

const NOT_OFFERED = "toolset"; // in the place of a layer: none has refused it, the run has no such tool
const EXEC = "exec"; // behind the layers: what the command would do was judged by itself
const ALLOWING = ["approved", "used"]; // of a question

/** Whether people were asked and it went as they said: a yes, a no, or no answer. @param question {status, by?} or nothing */
export function isByPeople(allowed, question) {
  return allowed ? ALLOWING.includes(question?.status) : ["denied", "expired"].includes(question?.status);
}

/**
 * @param {{allowed: boolean, layer?: string, admission?: object, question?: {status, decision, by}}} verdict
 *   `question`: what people were asked; `admission`: who or what let a command through, as it was kept when it started
 */
export function verdictWords({ allowed, layer, admission, question }, words) {
  if (allowed && admission) return admissionWords(admission, words);
  if (isByPeople(allowed, question)) return peopleWords(question, words);
  if (layer === NOT_OFFERED) return words.toolNotOffered;
  if (layer === EXEC && !allowed) return words.toolRefusedByRules;
  if (!layer) return allowed ? words.toolAllowed : words.toolRefused;
  return fill(allowed ? words.toolAllowedBy : words.toolRefusedBy, layer);
}

/** What stands behind it, for the details: each grant in full, and the layers of the policy. Empty when it is told already. */
export function behindVerdict({ allowed, layer, admission, question }, words) {
  if (!allowed || !(admission || isByPeople(allowed, question))) return "";
  const grants = (admission?.grants ?? []).map((grant) => grantLine(grant, words));
  const layers = layer ? [fill(words.toolLayers, verdictWords({ allowed, layer }, words))] : [];
  return [...grants, ...layers].join(". ");
}

function admissionWords({ by, person, decision, granted, grants }, words) {
  if (by === "answer") return approvedWords({ decision, by: person, granted }, words);
  if (by !== "grant") return words.toolAllowedByRules;
  const [first, ...others] = grants;
  const whose = first.person ? fill(words.toolGrantedBy, first.person) : fill(words.toolGranted, first.id);
  const more = others.length ? fill(words.toolMoreGrants, others.length) : "";
  return [whose, leftOfGrant(first, words), more].filter(Boolean).join(", ");
}

function peopleWords(question, words) {
  const { status, decision, by } = question;
  if (status === "expired") return words.toolUnanswered;
  if (status !== "denied") return approvedWords(question, words);
  return fill(decision === "drop" ? words.toolDroppedBy : words.toolDeniedBy, by ?? "");
}

function approvedWords({ decision, by, granted }, words) {
  if (decision === "allow-always") return fill(words.toolAlwaysBy, by ?? "");
  if (decision !== "allow-for") return fill(words.toolOnceBy, by ?? "");
  return granted?.uses === null && granted.seconds ? fill(words.toolForBy, by ?? "", lasting(granted.seconds)) : fill(words.toolApprovedBy, by ?? "");
}
