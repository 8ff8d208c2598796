/**
 * Loads the events of a run from the gateway, page by page, and again whenever there are more.
 *
 * Live events only trigger requests; the responses have no gaps and respect the user's permissions. Users who may see the run but
 * receive nothing over the socket get the stored events once.
 */

import { Gateway, randomId } from "../shared/gateway.js";

const PAGE_SIZE = 1000;
const DEBOUNCE_MS = 120; // deltas arrive in bursts
const POLL_MS = 3000; // for runs of other owners, whose live events are not sent to this user

export class RunEventSource {
  /** onEvents(events, {ended}), onState("connecting" | "live" | "lost" | "stored"), onError(error) */
  constructor({ id, runId, exportUrl, lastSeq, onEvents, onState, onError }) {
    Object.assign(this, { id, runId, exportUrl, lastSeq, onEvents, onState, onError });
    this.ended = false;
    this.timer = null;
    this.loading = false;
    this.loadAgain = false;
    this.gateway = new Gateway({
      url: `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws`,
      client: { id: "webchat-ui", mode: "webchat", version: "1", platform: "web", instanceId: randomId() },
      caps: ["tool-events"],
      onState: (state) => this.#handleState(state),
      onEvent: (name, payload) => name === "agent" && payload.runId === this.runId && this.#schedule(DEBOUNCE_MS),
      onGap: () => this.#schedule(0),
    });
  }

  start() {
    this.gateway.start();
  }

  #handleState({ name, hello }) {
    if (name === "ready") {
      this.scopes = hello.auth?.scopes ?? [];
      this.onState(this.ended ? "stored" : "live");
      this.#schedule(0);
    } else if (name === "signed-out" || name === "refused" || name === "outdated") this.#loadStored();
    else this.onState(name === "connecting" ? "connecting" : "lost");
  }

  #schedule(ms) {
    if (this.ended) return;
    if (this.loading) this.loadAgain = true;
    else {
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.#load(), ms);
    }
  }

  async #load() {
    this.loading = true;
    this.loadAgain = false;
    try {
      let hasMore = true;
      while (hasMore) {
        const page = await this.gateway.request("runs.events", { id: this.id, afterSeq: this.lastSeq(), limit: PAGE_SIZE });
        hasMore = page.more;
        this.ended = page.ended && !hasMore;
        this.onEvents(page.events, { ended: this.ended });
      }
      if (this.ended) this.onState("stored");
    } catch (error) {
      if (error.code === "NOT_FOUND" || error.details?.code === "MISSING_SCOPE") await this.#loadStored();
      else if (error.code !== "DISCONNECTED") this.onError(error);
    } finally {
      this.loading = false;
      if (!this.ended) this.#schedule(this.loadAgain ? DEBOUNCE_MS : POLL_MS);
    }
  }

  async #loadStored() {
    try {
      const response = await fetch(this.exportUrl, { headers: { Accept: "application/json" } });
      if (!response.ok) throw new Error(String(response.status));
      this.ended = true;
      this.onEvents((await response.json()).events, { ended: true });
      this.onState("stored");
    } catch (error) {
      this.onError(error);
    }
  }
}
