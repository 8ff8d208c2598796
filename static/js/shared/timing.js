/** One write to the page per animation frame, whatever arrives in between; and one clock for everything that counts seconds. */

const APART_MS = 28; // between two writes, so every other frame of 60 a second: words still flow, for a sixth less of the main thread

const waiting = new Set();
const counting = new Set();
let clock = null;
let painted = -Infinity;

/** Call `step` in the next frame, or the one after it, once, however often it is asked for until then. */
export function nextFrame(step) {
  if (waiting.size === 0) requestAnimationFrame(paint);
  waiting.add(step);
}

function paint(now) {
  if (now - painted < APART_MS) return requestAnimationFrame(paint);
  painted = now;
  const steps = [...waiting];
  waiting.clear();
  for (const step of steps) step();
}

/** Call `step` every second from now on. Returns a function that ends it. */
export function everySecond(step) {
  counting.add(step);
  clock ??= setInterval(() => counting.forEach((each) => each()), 1000);
  return () => {
    counting.delete(step);
    if (counting.size) return;
    clearInterval(clock);
    clock = null;
  };
}
