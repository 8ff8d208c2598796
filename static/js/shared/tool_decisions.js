/** Describes who allowed or denied a tool call, on its card in the chat and on the run page. */

import { formatPeriod } from "./formats.js";
import { describeGrant, describeRemaining } from "./grant_texts.js";
import { fill } from "./texts.js";

const UNAVAILABLE = "toolset"; // instead of a layer: no layer denied the tool, but the run does not have it
const EXEC_RULES = "exec"; // after the layers: the exec rules examined the command
const APPROVED_STATUSES = ["approved", "used"]; // approval statuses

/** Whether people decided the call: approved, denied or let it expire. @param approval {status, by?} or nothing */
export function isDecidedByPeople(allowed, approval) {
  return allowed ? APPROVED_STATUSES.includes(approval?.status) : ["denied", "expired"].includes(approval?.status);
}

/**
 * @param {{allowed: boolean, layer?: string, admission?: object, approval?: {status, decision, by}}} decision
 *   `approval`: the approval request; `admission`: what allowed the command, as recorded when it started
 */
export function describeDecision({ allowed, layer, admission, approval }, texts) {
  if (allowed && admission) return describeAdmission(admission, texts);
  if (isDecidedByPeople(allowed, approval)) return describeApproval(approval, texts);
  if (layer === UNAVAILABLE) return texts.toolNotOffered;
  if (layer === EXEC_RULES && !allowed) return texts.toolRefusedByRules;
  if (!layer) return allowed ? texts.toolAllowed : texts.toolRefused;
  return fill(allowed ? texts.toolAllowedBy : texts.toolRefusedBy, layer);
}

/** Details of a decision: each grant in full, and the policy layers. Empty if there is nothing to add. */
export function describeDecisionDetails({ allowed, layer, admission, approval }, texts) {
  if (!allowed || !(admission || isDecidedByPeople(allowed, approval))) return "";
  const grants = (admission?.grants ?? []).map((grant) => describeGrant(grant, texts));
  const layers = layer ? [fill(texts.toolLayers, describeDecision({ allowed, layer }, texts))] : [];
  return [...grants, ...layers].join(". ");
}

function describeAdmission({ by, person, decision, granted, grants }, texts) {
  if (by === "answer") return describeApproved({ decision, by: person, granted }, texts);
  if (by !== "grant") return texts.toolAllowedByRules;
  const [first, ...others] = grants;
  const grantedBy = first.person ? fill(texts.toolGrantedBy, first.person) : fill(texts.toolGranted, first.id);
  const more = others.length ? fill(texts.toolMoreGrants, others.length) : "";
  return [grantedBy, describeRemaining(first, texts), more].filter(Boolean).join(", ");
}

function describeApproval(approval, texts) {
  const { status, decision, by } = approval;
  if (status === "expired") return texts.toolUnanswered;
  if (status !== "denied") return describeApproved(approval, texts);
  return fill(decision === "drop" ? texts.toolDroppedBy : texts.toolDeniedBy, by ?? "");
}

function describeApproved({ decision, by, granted }, texts) {
  if (decision === "allow-always") return fill(texts.toolAlwaysBy, by ?? "");
  if (decision !== "allow-for") return fill(texts.toolOnceBy, by ?? "");
  return granted?.uses === null && granted.seconds
    ? fill(texts.toolForBy, by ?? "", formatPeriod(granted.seconds))
    : fill(texts.toolApprovedBy, by ?? "");
}
