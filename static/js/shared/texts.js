/** Sentences with a gap, and errors in words. The words themselves are translated in the templates. */

/** Put the values into the gaps, %n or %s, in their order. */
export function fill(words, ...values) {
  return words.replace(/%[ns]/g, (gap) => (values.length ? values.shift() : gap));
}

const CODES = {
  QUEUE_FULL: "codeQueueFull",
  NOT_FOUND: "codeNotFound",
  CONFLICT: "codeConflict",
  FORBIDDEN: "codeForbidden",
  UNAVAILABLE: "codeUnavailable",
  INVALID_REQUEST: "codeInvalidRequest",
};

/** Why a request failed, for people: in the page's words where the code tells enough, otherwise in the server's. */
export function reason(words, error) {
  const { code, details } = error;
  if (details?.code === "MISSING_SCOPE") return details.missingScope === "operator.write" ? words.readOnly : words.mayNotChat;
  return explained(words, details) ?? { DISCONNECTED: words.notConnected, TIMEOUT: words.timedOut }[code] ?? bothSaid(words, words[CODES[code]], error.message);
}

/** The server speaks English: on a page in another language its sentence stands behind ours. */
export function bothSaid(words, ours, theirs) {
  if (!theirs || !ours) return theirs || ours;
  return document.documentElement.lang.startsWith("en") ? theirs : fill(words.said, ours, theirs);
}

function explained(words, details) {
  switch (details?.code) {
    case "RUN_UNFINISHED":
      return words.stopFirst;
    case "UNKNOWN_COMMAND":
      return fill(words.unknownCommand, details.command, details.meant);
    case "UNKNOWN_LEVEL":
      return fill(words.unknownLevel, details.level, details.levels.join(", "));
    case "UNKNOWN_MODEL":
      return fill(words.unknownModel, details.model, details.near.join(", "));
    case "MODEL_WITHOUT_KEY":
      return fill(words.modelWithoutKey, details.model);
  }
}
