/** Describes the extent of a decision or grant: duration, uses and scope. Decisions are in tool_decisions.js. */

import { formatPeriod, formatTime } from "./formats.js";
import { fill } from "./texts.js";

/** Describe what a decision allows in the future. @param {{scope, seconds, uses}} [granted] as in chat.history and events */
export function describeExtent(granted, texts) {
  if (!granted) return "";
  const { seconds, uses } = granted;
  const scopeText = describeScope(granted.scope, texts);
  if (uses === null) return seconds ? fill(texts.extentFor, formatPeriod(seconds), scopeText) : scopeText;
  if (!seconds) return [describeUses(uses, texts.extentOneUse, texts.extentUses), scopeText].join(", ");
  return fill(texts.extentWithin, describeUses(uses, texts.extentOneUse, texts.extentUses), formatPeriod(seconds), scopeText);
}

/** Describe the remaining time and uses of a grant. @param {{expiresAt, usesLeft}} grant its state after the call */
export function describeRemaining({ expiresAt, usesLeft }, texts) {
  const until = expiresAt ? fill(texts.grantUntil, formatTime(expiresAt)) : "";
  return [until, usesLeft === null ? "" : describeUses(usesLeft, texts.oneUseLeft, texts.usesLeft)].filter(Boolean).join(", ");
}

/** Describe a grant in full, for the details of a decision. */
export function describeGrant(grant, texts) {
  const label = fill(grant.person ? texts.grantOf : texts.grantNumber, grant.id, grant.person);
  return `${label}: ${[describeScope(grant.scope, texts), describeRemaining(grant, texts)].filter(Boolean).join(", ")}`;
}

function describeUses(uses, one, many) {
  return uses === 1 ? one : fill(many, uses);
}

function describeScope(scope, texts) {
  return texts[`where${scope[0].toUpperCase()}${scope.slice(1)}`] ?? scope;
}
