/** One write to the page per animation frame, whatever arrives in between; and one clock for everything that counts seconds. */

const MIN_INTERVAL_MS = 28; // between two writes, so every other frame of 60 a second: words still flow, for a sixth less of the main thread

const queued = new Set();
const everySecondCallbacks = new Set();
let timer = null;
let lastPaint = -Infinity;

/** Call `step` in the next frame, or the one after it, once, however often it is asked for until then. */
export function nextFrame(callback) {
  if (queued.size === 0) requestAnimationFrame(paint);
  queued.add(callback);
}

function paint(now) {
  if (now - lastPaint < MIN_INTERVAL_MS) return requestAnimationFrame(paint);
  lastPaint = now;
  const callbacks = [...queued];
  queued.clear();
  for (const callback of callbacks) callback();
}

/** Call `step` every second from now on. Returns a function that ends it. */
export function everySecond(callback) {
  everySecondCallbacks.add(callback);
  timer ??= setInterval(() => everySecondCallbacks.forEach((each) => each()), 1000);
  return () => {
    everySecondCallbacks.delete(callback);
    if (everySecondCallbacks.size) return;
    clearInterval(timer);
    timer = null;
  };
}
