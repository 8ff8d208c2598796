/** Texts for codes: why a run failed, was stopped or is waiting. They are translated in templates/shared/_reason_texts.html. */

import { withServerMessage } from "./texts.js";

/** Describe briefly why a run failed. */
export function describeFailureKind(kind, texts) {
  return (kind && texts[`failed${toPascalCase(kind)}`]) || texts.failedOtherwise;
}

/** Like describeFailureKind, with the message of the server or provider. */
export function describeFailure(message, kind, texts) {
  return withServerMessage(describeFailureKind(kind ?? "", texts), message, texts);
}

/** A hint for resolving the failure; empty if there is none. */
export function describeHint(kind, texts) {
  return texts[`hint${toPascalCase(kind)}`] ?? "";
}

/** Describe any reason; unknown ones are returned unchanged. */
export function describeReason(reason, texts) {
  if (!reason) return "";
  const name = toPascalCase(reason);
  return texts[`failed${name}`] ?? texts[`stopped${name}`] ?? texts[`waits${name}`] ?? reason;
}

/** rate_limit → RateLimit, as in the names of the texts. */
function toPascalCase(kind) {
  return kind.replace(/(?:^|[_-])(\w)/g, (_, letter) => letter.toUpperCase());
}
