/** Clones templates of the page and sets their text. */

export function cloneTemplate(template) {
  return document.getElementById(template).content.firstElementChild.cloneNode(true);
}

/** Set the text of an element; hide the element if there is none. */
export function setText(element, text) {
  if (element.textContent !== (text ?? "")) element.textContent = text ?? "";
  element.hidden = !text;
}

/** The blocks of a message's content; plain text is one block. */
export function getBlocks(content) {
  return Array.isArray(content) ? content : [{ type: "text", text: content ?? "" }];
}

export function getText(content) {
  return getBlocks(content)
    .filter(({ type }) => type === "text")
    .map(({ text }) => text)
    .join("\n");
}
