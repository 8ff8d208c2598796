/** Codes in words: why a run failed, was stopped or waits. The words are in templates/_reasons.html. */

import { bothSaid } from "./texts.js";

/** Why a run failed, in a few words. */
export function failureWords(kind, words) {
  return (kind && words[`failed${named(kind)}`]) || words.failedOtherwise;
}

/** The same with what the server or the provider said about it. */
export function failure(said, kind, words) {
  return bothSaid(words, failureWords(kind ?? "", words), said);
}

/** What to do about it. */
export function hint(kind, words) {
  return words[`hint${named(kind)}`] ?? "";
}

/** Any reason in words; one that is not known stays as it is. */
export function reasonWords(reason, words) {
  if (!reason) return "";
  const name = named(reason);
  return words[`failed${name}`] ?? words[`stopped${name}`] ?? words[`waits${name}`] ?? reason;
}

/** rate_limit → RateLimit, as in the names of the words. */
function named(kind) {
  return kind.replace(/(?:^|[_-])(\w)/g, (_, letter) => letter.toUpperCase());
}
