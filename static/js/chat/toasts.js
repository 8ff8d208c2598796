/** Toasts: short messages at the bottom of the page, some with undo. Each replaces the previous one. */

const SHOWN_MS = 8_000;
const GAP_PIXELS = 8;

export function startToasts(app) {
  const toast = document.getElementById("toast");
  const text = toast.querySelector(".text");
  const undo = toast.querySelector(".undo");
  let timer = null;
  let revert = null;

  /** @param {string} message @param {{undo?: Function}} options `undo` is called if the user clicks Undo in time. */
  app.showToast = (message, options = {}) => {
    revert = options.undo ?? null;
    text.textContent = message;
    undo.hidden = !revert;
    toast.hidden = false;
    // Above the composer, which it would cover on phones.
    toast.parentElement.style.bottom = `${innerHeight - document.getElementById("composer").getBoundingClientRect().top + GAP_PIXELS}px`;
    app.announce(message);
    startTimer();
  };

  function startTimer() {
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
  // Stays while the user points at it or focuses it.
  for (const arrival of ["pointerenter", "focusin"]) toast.addEventListener(arrival, () => clearTimeout(timer));
  for (const leaving of ["pointerleave", "focusout"]) toast.addEventListener(leaving, startTimer);
}
