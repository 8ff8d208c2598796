/**
 * Where the events of a run come from: the gateway, page by page, and again whenever it tells that there are more.
 *
 * Live events are only a hint to ask: what is asked for has no holes and is what the one who looks may see. Who may look at the
 * run, but has no socket for it, gets it once, as stored.
 */

import { Gateway, randomId } from "../shared/gateway.js";

const PAGE = 1000;
const CALM_MS = 120; // deltas come by the dozen
const POLL_MS = 3000; // of a run of others, of which nothing is told live

export class RunSource {
  /** onEvents(events, {ended}), onState("connecting" | "live" | "lost" | "stored"), onTrouble(error) */
  constructor({ id, runId, exportUrl, lastSeq, onEvents, onState, onTrouble }) {
    Object.assign(this, { id, runId, exportUrl, lastSeq, onEvents, onState, onTrouble });
    this.ended = false;
    this.timer = null;
    this.asking = false;
    this.again = false;
    this.gateway = new Gateway({
      url: `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`,
      client: { id: "webchat-ui", mode: "webchat", version: "1", platform: "web", instanceId: randomId() },
      caps: ["tool-events"],
      onState: (state) => this.#connection(state),
      onEvent: (name, payload) => name === "agent" && payload.runId === this.runId && this.#soon(CALM_MS),
      onGap: () => this.#soon(0),
    });
  }

  start() {
    this.gateway.start();
  }

  #connection({ name, hello }) {
    if (name === "ready") {
      this.scopes = hello.auth?.scopes ?? [];
      this.onState(this.ended ? "stored" : "live");
      this.#soon(0);
    } else if (name === "signed-out" || name === "refused" || name === "outdated") this.#stored();
    else this.onState(name === "connecting" ? "connecting" : "lost");
  }

  #soon(ms) {
    if (this.ended) return;
    if (this.asking) this.again = true;
    else {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.#ask(), ms);
    }
  }

  async #ask() {
    this.asking = true;
    this.again = false;
    try {
      let more = true;
      while (more) {
        const page = await this.gateway.request("runs.events", { id: this.id, afterSeq: this.lastSeq(), limit: PAGE });
        more = page.more;
        this.ended = page.ended && !more;
        this.onEvents(page.events, { ended: this.ended });
      }
      if (this.ended) this.onState("stored");
    } catch (error) {
      if (error.code === "NOT_FOUND" || error.details?.code === "MISSING_SCOPE") await this.#stored();
      else if (error.code !== "DISCONNECTED") this.onTrouble(error);
    } finally {
      this.asking = false;
      if (!this.ended) this.#soon(this.again ? CALM_MS : POLL_MS);
    }
  }

  async #stored() {
    try {
      const answer = await fetch(this.exportUrl, { headers: { Accept: "application/json" } });
      if (!answer.ok) throw new Error(String(answer.status));
      this.ended = true;
      this.onEvents((await answer.json()).events, { ended: true });
      this.onState("stored");
    } catch (error) {
      this.onTrouble(error);
    }
  }
}
