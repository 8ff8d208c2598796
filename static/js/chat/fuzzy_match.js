/** How well somebody's letters fit a text: all words of the query have to be found, whole or as letters in their order. */

/** @returns {{score: number, places: [number, number][]} | null} where the letters stand; null when they do not fit */
export function fits(query, text) {
  const lower = text.toLowerCase();
  let score = 0;
  const places = [];
  for (const word of query.toLowerCase().split(/\s+/).filter(Boolean)) {
    const found = whole(word, lower) ?? letters(word, lower);
    if (!found) return null;
    score += found.score;
    places.push(...found.places);
  }
  // Among equals the shorter text, of which more was said.
  return { score: score - text.length / 200, places: joined(places) };
}

function whole(word, text) {
  const start = beginnings(text).find((place) => text.startsWith(word, place));
  const place = start ?? text.indexOf(word);
  if (place < 0) return null;
  const score = word.length * (start === undefined ? 6 : 10) - place / 50;
  return { score, places: [[place, place + word.length]] };
}

/** Letters in their order; those at the beginning of words and side by side count more. */
function letters(word, text) {
  const starts = new Set(beginnings(text));
  const places = [];
  let score = 0;
  let at = -1;
  for (const letter of word) {
    const next = text.indexOf(letter, at + 1);
    if (next < 0) return null;
    score += starts.has(next) ? 4 : next === at + 1 ? 3 : 1 - Math.min(next - at, 20) / 10;
    places.push([next, next + letter.length]);
    at = next + letter.length - 1;
  }
  // Letters strewn over a long text fit by chance.
  return score >= word.length ? { score, places } : null;
}

function beginnings(text) {
  return [...text.matchAll(/(?<![\p{L}\p{N}])[\p{L}\p{N}]/gu)].map(({ index }) => index);
}

function joined(places) {
  const sorted = places.sort(([a], [b]) => a - b);
  const merged = [];
  for (const [start, end] of sorted) {
    const last = merged.at(-1);
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else merged.push([start, end]);
  }
  return merged;
}
