/** Who allowed or refused a tool call, in words: on its card in the chat and in the story of a run. */

import { fill } from "./words.js";

const NOT_OFFERED = "toolset"; // in the place of a layer: none has refused it, the run has no such tool

/** @param {{allowed: boolean, layer?: string}} verdict */
export function verdictWords({ allowed, layer }, words) {
  if (layer === NOT_OFFERED) return words.toolNotOffered;
  if (!layer) return allowed ? words.toolAllowed : words.toolRefused;
  return fill(allowed ? words.toolAllowedBy : words.toolRefusedBy, layer);
}
