/** On phones whose keyboard lies over the page instead of making it smaller, the page makes itself smaller. */

const KEYBOARD = 120; // pixels: no bar of a browser takes that much

export function startViewport() {
  const seen = globalThis.visualViewport;
  if (!seen) return;
  seen.addEventListener("resize", () => {
    const covered = innerHeight - seen.height * seen.scale;
    if (covered > KEYBOARD) document.body.style.height = `${seen.height}px`;
    else document.body.style.removeProperty("height");
    if (covered > KEYBOARD) scrollTo(0, 0);
  });
}
