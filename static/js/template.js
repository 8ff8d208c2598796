/** What templates/chat/page.html provides to the scripts: elements to copy, and words, so that they are translated there. */

export function copyOf(template) {
  return document.getElementById(template).content.firstElementChild.cloneNode(true);
}

/** %n is a number, %s a text. */
export function fill(words, value) {
  return words.replace(/%[ns]/, () => value);
}
