/** The words of messages: read from their wire form, and written into the page as they grow. */

/** A growing text: its node, and its length in characters as the server counts them (an emoji is one, not two). */
export function textIn(article, selector) {
  const node = document.createTextNode("");
  article.querySelector(selector).append(node);
  return { node, length: 0 };
}

/** Put `text` at `offset`. Adding at the end, which is nearly always, costs no more than the addition. */
export function write(target, offset, text) {
  if (offset === target.length) target.node.appendData(text);
  else target.node.data = [...target.node.data].slice(0, offset).join("") + text;
  target.length = Math.min(offset, target.length) + [...text].length;
}

/** The content of a message in its wire form: blocks, or just a text. */
export function blocks(content) {
  return Array.isArray(content) ? content : [{ type: "text", text: content ?? "" }];
}

export function textOf(content) {
  return blocks(content).filter((block) => block.type === "text").map((block) => block.text).join("\n");
}
