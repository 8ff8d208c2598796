/** Sentences with a gap, and errors in words. The words themselves are translated in the templates. */

/** Put the values into the gaps, %n or %s, in their order. */
export function fill(text, ...values) {
  return text.replace(/%[ns]/g, (gap) => (values.length ? values.shift() : gap));
}

const TEXT_KEYS = {
  QUEUE_FULL: "codeQueueFull",
  NOT_FOUND: "codeNotFound",
  CONFLICT: "codeConflict",
  FORBIDDEN: "codeForbidden",
  UNAVAILABLE: "codeUnavailable",
  INVALID_REQUEST: "codeInvalidRequest",
};

/** Why a request failed, for people: in the page's words where the code tells enough, otherwise in the server's. */
export function describeError(error, texts) {
  const { code, details } = error;
  if (details?.code === "MISSING_SCOPE") return details.missingScope === "operator.write" ? texts.readOnly : texts.mayNotChat;
  return describeDetails(details, texts) ?? { DISCONNECTED: texts.notConnected, TIMEOUT: texts.timedOut }[code] ?? withServerMessage(texts[TEXT_KEYS[code]], error.message, texts);
}

/** The server speaks English: on a page in another language its sentence stands behind ours. */
export function withServerMessage(ours, theirs, texts) {
  if (!theirs || !ours) return theirs || ours;
  return document.documentElement.lang.startsWith("en") ? theirs : fill(texts.said, ours, theirs);
}

function describeDetails(details, texts) {
  switch (details?.code) {
    case "RUN_UNFINISHED":
      return texts.stopFirst;
    case "UNKNOWN_COMMAND":
      return fill(texts.unknownCommand, details.command, details.meant);
    case "UNKNOWN_LEVEL":
      return fill(texts.unknownLevel, details.level, details.levels.join(", "));
    case "UNKNOWN_MODEL":
      return fill(texts.unknownModel, details.model, details.near.join(", "));
    case "MODEL_WITHOUT_KEY":
      return fill(texts.modelWithoutKey, details.model);
  }
}
