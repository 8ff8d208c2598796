/** Toasts: short messages at the bottom of the page, some with undo. Each replaces the previous one. */

const DISPLAY_MS = 8_000;
const GAP_PIXELS = 8;

export function startToasts(app) {
  const toast = document.getElementById("toast");
  const textElement = toast.querySelector(".text");
  const undoButton = toast.querySelector(".undo");
  let timer = null;
  let onUndo = null;

  /** @param {string} message @param {{undo?: Function}} options `undo` is called if the user clicks Undo in time. */
  app.showToast = (message, options = {}) => {
    onUndo = options.undo ?? null;
    textElement.textContent = message;
    undoButton.hidden = !onUndo;
    toast.hidden = false;
    // Place it above the composer, which it would cover on phones.
    const { top } = document.getElementById("composer").getBoundingClientRect();
    toast.parentElement.style.bottom = `${innerHeight - top + GAP_PIXELS}px`;
    app.announce(message);
    startTimer();
  };

  function startTimer() {
    clearTimeout(timer);
    timer = setTimeout(close, DISPLAY_MS);
  }

  function close() {
    clearTimeout(timer);
    toast.hidden = true;
    onUndo = null;
  }

  undoButton.addEventListener("click", () => {
    onUndo?.();
    close();
  });
  toast.querySelector(".close").addEventListener("click", close);
  // A toast stays open while it has the pointer or the focus.
  for (const eventName of ["pointerenter", "focusin"]) toast.addEventListener(eventName, () => clearTimeout(timer));
  for (const eventName of ["pointerleave", "focusout"]) toast.addEventListener(eventName, startTimer);
}
