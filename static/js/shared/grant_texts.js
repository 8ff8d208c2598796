/** How far an answer or a grant reaches, in words: for how long, how often, where. What was decided is in tool_decisions.js. */

import { lasting, shortTime } from "./formats.js";
import { fill } from "./texts.js";

/** What an answer allows from then on. @param {{scope, seconds, uses}} granted as chat.history and events tell it; or nothing */
export function extentWords(granted, words) {
  if (!granted) return "";
  const { seconds, uses } = granted;
  const where = whereWords(granted.scope, words);
  if (uses === null) return seconds ? fill(words.extentFor, lasting(seconds), where) : where;
  if (!seconds) return [usesWords(uses, words.extentOneUse, words.extentUses), where].join(", ");
  return fill(words.extentWithin, usesWords(uses, words.extentOneUse, words.extentUses), lasting(seconds), where);
}

/** Until when and how often a grant counts still. @param {{expiresAt, usesLeft}} grant as it stood after the call */
export function leftOfGrant({ expiresAt, usesLeft }, words) {
  const until = expiresAt ? fill(words.grantUntil, shortTime(expiresAt)) : "";
  return [until, usesLeft === null ? "" : usesWords(usesLeft, words.oneUseLeft, words.usesLeft)].filter(Boolean).join(", ");
}

/** All of it, for the details. */
export function grantLine(grant, words) {
  const whose = fill(grant.person ? words.grantOf : words.grantNumber, grant.id, grant.person);
  return `${whose}: ${[whereWords(grant.scope, words), leftOfGrant(grant, words)].filter(Boolean).join(", ")}`;
}

function usesWords(uses, one, many) {
  return uses === 1 ? one : fill(many, uses);
}

function whereWords(scope, words) {
  return words[`where${scope[0].toUpperCase()}${scope.slice(1)}`] ?? scope;
}
