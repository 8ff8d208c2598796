/** How far an answer or a grant reaches, in words: for how long, how often, where. What was decided is in tool_decisions.js. */

import { formatPeriod, formatTime } from "./formats.js";
import { fill } from "./texts.js";

/** What an answer allows from then on. @param {{scope, seconds, uses}} granted as chat.history and events tell it; or nothing */
export function describeExtent(granted, texts) {
  if (!granted) return "";
  const { seconds, uses } = granted;
  const where = describeScope(granted.scope, texts);
  if (uses === null) return seconds ? fill(texts.extentFor, formatPeriod(seconds), where) : where;
  if (!seconds) return [describeUses(uses, texts.extentOneUse, texts.extentUses), where].join(", ");
  return fill(texts.extentWithin, describeUses(uses, texts.extentOneUse, texts.extentUses), formatPeriod(seconds), where);
}

/** Until when and how often a grant counts still. @param {{expiresAt, usesLeft}} grant as it stood after the call */
export function describeRemaining({ expiresAt, usesLeft }, texts) {
  const until = expiresAt ? fill(texts.grantUntil, formatTime(expiresAt)) : "";
  return [until, usesLeft === null ? "" : describeUses(usesLeft, texts.oneUseLeft, texts.usesLeft)].filter(Boolean).join(", ");
}

/** All of it, for the details. */
export function describeGrant(grant, texts) {
  const owner = fill(grant.person ? texts.grantOf : texts.grantNumber, grant.id, grant.person);
  return `${owner}: ${[describeScope(grant.scope, texts), describeRemaining(grant, texts)].filter(Boolean).join(", ")}`;
}

function describeUses(uses, one, many) {
  return uses === 1 ? one : fill(many, uses);
}

function describeScope(scope, texts) {
  return texts[`where${scope[0].toUpperCase()}${scope.slice(1)}`] ?? scope;
}
