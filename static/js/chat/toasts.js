/** Short news at the foot of the page, some of which can be undone. One at a time: the next replaces the last. */

const SHOWN_MS = 8_000;
const ABOVE = 8; // px

export function startToasts(app) {
  const toast = document.getElementById("toast");
  const text = toast.querySelector(".text");
  const undo = toast.querySelector(".undo");
  let timer = null;
  let revert = null;

  /** @param {string} news @param {{undo?: Function}} options `undo` is called when somebody asks for it in time. */
  app.notice = (news, options = {}) => {
    revert = options.undo ?? null;
    text.textContent = news;
    undo.hidden = !revert;
    toast.hidden = false;
    // Above the field one writes in: on a phone it would lie on all of it.
    toast.parentElement.style.bottom = `${innerHeight - document.getElementById("composer").getBoundingClientRect().top + ABOVE}px`;
    app.say(news);
    wait();
  };

  function wait() {
    clearTimeout(timer);
    timer = setTimeout(close, SHOWN_MS);
  }

  function close() {
    clearTimeout(timer);
    toast.hidden = true;
    revert = null;
  }

  undo.addEventListener("click", () => {
    revert?.();
    close();
  });
  toast.querySelector(".close").addEventListener("click", close);
  // Who is on it, reads it: it waits.
  for (const arrival of ["pointerenter", "focusin"]) toast.addEventListener(arrival, () => clearTimeout(timer));
  for (const leaving of ["pointerleave", "focusout"]) toast.addEventListener(leaving, wait);
}
