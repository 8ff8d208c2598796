/** Fills placeholders and describes errors. The texts are translated in the templates. */

/** Replace the placeholders %n and %s with the values, in order. */
export function fill(text, ...values) {
  return text.replace(/%[ns]/g, (placeholder) => (values.length ? values.shift() : placeholder));
}

const TEXT_KEYS = {
  QUEUE_FULL: "codeQueueFull",
  NOT_FOUND: "codeNotFound",
  CONFLICT: "codeConflict",
  FORBIDDEN: "codeForbidden",
  UNAVAILABLE: "codeUnavailable",
  INVALID_REQUEST: "codeInvalidRequest",
};

/** Describe why a request failed: translated if the code is specific enough, otherwise the server's message. */
export function describeError(error, texts) {
  const { code, details } = error;
  if (details?.code === "MISSING_SCOPE") return details.missingScope === "operator.write" ? texts.readOnly : texts.mayNotChat;
  return describeDetails(details, texts)
    ?? { DISCONNECTED: texts.notConnected, TIMEOUT: texts.timedOut }[code]
    ?? (isTranslated(error.message) ? error.message : withServerMessage(texts[TEXT_KEYS[code]], error.message, texts));
}

/** Whether the server sent a message in the language of a Chinese page. Errors for programs are always in English. */
function isTranslated(message) {
  return document.documentElement.lang.startsWith("zh") && /\p{Script=Han}/u.test(message);
}

/** Untranslated messages are in English: on pages in other languages they follow the translated text. */
export function withServerMessage(translated, serverMessage, texts) {
  if (!serverMessage || !translated) return serverMessage || translated;
  return document.documentElement.lang.startsWith("en") ? serverMessage : fill(texts.said, translated, serverMessage);
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
