/** Helpers to clone templates, set text, and read message content. */

export function cloneTemplate(template) {
  return document.getElementById(template).content.firstElementChild.cloneNode(true);
}

/** Set the text of an element; hide the element if the text is empty. */
export function setText(element, text) {
  if (element.textContent !== (text ?? "")) element.textContent = text ?? "";
  element.hidden = !text;
}

/** Return the blocks of a message's content; plain text is one block. */
export function getBlocks(content) {
  return Array.isArray(content) ? content : [{ type: "text", text: content ?? "" }];
}

export function getText(content) {
  return getBlocks(content)
    .filter(({ type }) => type === "text")
    .map(({ text }) => text)
    .join("\n");
}
