/** Resizes the page on phones whose keyboard covers it. */

const MIN_KEYBOARD_PIXELS = 120; // more than any browser toolbar

export function startViewport() {
  const viewport = globalThis.visualViewport;
  if (!viewport) return;
  viewport.addEventListener("resize", () => {
    const coveredPixels = innerHeight - viewport.height * viewport.scale;
    if (coveredPixels > MIN_KEYBOARD_PIXELS) document.body.style.height = `${viewport.height}px`;
    else document.body.style.removeProperty("height");
    if (coveredPixels > MIN_KEYBOARD_PIXELS) scrollTo(0, 0);
  });
}
