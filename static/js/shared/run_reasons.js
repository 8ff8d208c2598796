/** Codes in words: why a run failed, was stopped or waits. The words are in templates/_reasons.html. */

import { withServerMessage } from "./texts.js";

/** Why a run failed, in a few words. */
export function describeFailureKind(kind, texts) {
  return (kind && texts[`failed${toPascalCase(kind)}`]) || texts.failedOtherwise;
}

/** The same with what the server or the provider said about it. */
export function describeFailure(message, kind, texts) {
  return withServerMessage(describeFailureKind(kind ?? "", texts), message, texts);
}

/** What to do about it. */
export function describeHint(kind, texts) {
  return texts[`hint${toPascalCase(kind)}`] ?? "";
}

/** Any reason in words; one that is not known stays as it is. */
export function describeReason(reason, texts) {
  if (!reason) return "";
  const name = toPascalCase(reason);
  return texts[`failed${name}`] ?? texts[`stopped${name}`] ?? texts[`waits${name}`] ?? reason;
}

/** rate_limit → RateLimit, as in the names of the words. */
function toPascalCase(kind) {
  return kind.replace(/(?:^|[_-])(\w)/g, (_, letter) => letter.toUpperCase());
}
