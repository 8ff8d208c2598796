/** Copies of the templates in the page, and the few ways in which text gets into them. */

export function copyOf(template) {
  return document.getElementById(template).content.firstElementChild.cloneNode(true);
}

/** Show `text` in the element, or hide the element when there is none. */
export function put(element, text) {
  if (element.textContent !== (text ?? "")) element.textContent = text ?? "";
  element.hidden = !text;
}

/** The blocks of a message's content; a bare text is one. */
export function blocksOf(content) {
  return Array.isArray(content) ? content : [{ type: "text", text: content ?? "" }];
}

export function textOf(content) {
  return blocksOf(content)
    .filter(({ type }) => type === "text")
    .map(({ text }) => text)
    .join("\n");
}
