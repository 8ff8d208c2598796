/** Fuzzy matching: every word of the query must occur, literally or as a subsequence of letters. */

/** @returns {{score: number, ranges: [number, number][]} | null} the matching ranges; null without a match */
export function fuzzyMatch(query, text) {
  const lower = text.toLowerCase();
  let score = 0;
  const ranges = [];
  for (const word of query.toLowerCase().split(/\s+/).filter(Boolean)) {
    const match = matchSubstring(word, lower) ?? matchLetters(word, lower);
    if (!match) return null;
    score += match.score;
    ranges.push(...match.ranges);
  }
  // On equal scores, prefer the shorter text, because more of it is matched.
  return { score: score - text.length / 200, ranges: mergeRanges(ranges) };
}

function matchSubstring(word, text) {
  const start = wordStarts(text).find((index) => text.startsWith(word, index));
  const index = start ?? text.indexOf(word);
  if (index < 0) return null;
  const score = word.length * (start === undefined ? 6 : 10) - index / 50;
  return { score, ranges: [[index, index + word.length]] };
}

/** Match letters in order; letters at word starts and adjacent letters score higher. */
function matchLetters(word, text) {
  const starts = new Set(wordStarts(text));
  const ranges = [];
  let score = 0;
  let position = -1;
  for (const letter of word) {
    const next = text.indexOf(letter, position + 1);
    if (next < 0) return null;
    score += starts.has(next) ? 4 : next === position + 1 ? 3 : 1 - Math.min(next - position, 20) / 10;
    ranges.push([next, next + letter.length]);
    position = next + letter.length - 1;
  }
  // Letters scattered over a long text match by chance.
  return score >= word.length ? { score, ranges } : null;
}

function wordStarts(text) {
  return [...text.matchAll(/(?<![\p{L}\p{N}])[\p{L}\p{N}]/gu)].map(({ index }) => index);
}

function mergeRanges(ranges) {
  const sorted = ranges.sort(([a], [b]) => a - b);
  const merged = [];
  for (const [start, end] of sorted) {
    const last = merged.at(-1);
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else merged.push([start, end]);
  }
  return merged;
}
