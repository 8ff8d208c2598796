/** On phones whose keyboard covers the page instead of resizing it, resize the page. */

const KEYBOARD = 120; // pixels: more than any browser toolbar

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
