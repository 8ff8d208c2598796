/**
 * Renders markdown on the server, which escapes, highlights and sanitizes it. This is the only source of HTML in the chat.
 *
 * Blocks are sent in order, one request at a time, batched while a request is running; equal texts are rendered once. Without a
 * response, a block stays plain text.
 */

const MAX_BLOCKS = 64; // the server's limit per request
const MAX_BYTES = 250_000; // the server's limit is 256 KB
const MAX_RESULTS = 600; // in the cache

export class Renderer {
  constructor(gateway) {
    this.gateway = gateway;
    this.results = new Map(); // text → promise of its HTML; oldest first
    this.waiting = []; // [{text, size, resolve}]
    this.sending = false;
  }

  /** @returns {Promise<string|null>} */
  render(text) {
    let result = this.results.get(text);
    if (!result) {
      result = this.#enqueue(text);
      this.results.set(text, result);
      if (this.results.size > MAX_RESULTS) this.results.delete(this.results.keys().next().value);
    }
    return result;
  }

  /** Continue after reconnecting. */
  resume() {
    if (!this.sending && this.waiting.length) this.#send();
  }

  #enqueue(text) {
    const size = new Blob([text]).size;
    if (size > MAX_BYTES) return Promise.resolve(null);
    return new Promise((resolve) => {
      this.waiting.push({ text, size, resolve });
      if (!this.sending) queueMicrotask(() => this.resume());
    });
  }

  async #send() {
    this.sending = true;
    while (this.waiting.length && this.gateway.ready) {
      const batch = this.#takeBatch();
      try {
        const { html } = await this.gateway.request("chat.render", { blocks: batch.map(({ text }) => text) });
        batch.forEach(({ resolve }, index) => resolve(html[index] ?? null));
      } catch (error) {
        if (error.code === "DISCONNECTED") this.waiting.unshift(...batch);
        else for (const { text, resolve } of batch) {
          this.results.delete(text); // a later attempt may succeed
          resolve(null);
        }
      }
    }
    this.sending = false;
  }

  #takeBatch() {
    let size = 0;
    const fitsBatch = (block, index) => index < MAX_BLOCKS && (size += block.size) <= MAX_BYTES;
    const end = this.waiting.findIndex((block, index) => !fitsBatch(block, index));
    return this.waiting.splice(0, end === -1 ? this.waiting.length : end);
  }
}
