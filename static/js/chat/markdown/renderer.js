/**
 * Markdown to HTML, by the server: it escapes, highlights and sanitises. This is the only place HTML comes from.
 *
 * Blocks are asked for in their order, one request at a time, with all that has come together meanwhile; the same text once.
 * Without an answer a block stays the plain text that it is.
 */

const MOST_BLOCKS = 64; // of one request, as the server takes them
const MOST_BYTES = 250_000; // the server takes 256 KB
const KEPT = 600; // results

export class Renderer {
  constructor(gateway) {
    this.gateway = gateway;
    this.results = new Map(); // text → promise of its HTML; the oldest first
    this.waiting = []; // [{text, size, resolve}]
    this.asking = false;
  }

  /** @returns {Promise<string|null>} */
  render(text) {
    let result = this.results.get(text);
    if (!result) {
      result = this.#ask(text);
      this.results.set(text, result);
      if (this.results.size > KEPT) this.results.delete(this.results.keys().next().value);
    }
    return result;
  }

  /** There is a connection again. */
  wake() {
    if (!this.asking && this.waiting.length) this.#send();
  }

  #ask(text) {
    const size = new Blob([text]).size;
    if (size > MOST_BYTES) return Promise.resolve(null);
    return new Promise((resolve) => {
      this.waiting.push({ text, size, resolve });
      if (!this.asking) queueMicrotask(() => this.wake());
    });
  }

  async #send() {
    this.asking = true;
    while (this.waiting.length && this.gateway.ready) {
      const batch = this.#batch();
      try {
        const { html } = await this.gateway.request("chat.render", { blocks: batch.map(({ text }) => text) });
        batch.forEach(({ resolve }, index) => resolve(html[index] ?? null));
      } catch (error) {
        if (error.code === "DISCONNECTED") this.waiting.unshift(...batch);
        else for (const { text, resolve } of batch) {
          this.results.delete(text); // another time it may work
          resolve(null);
        }
      }
    }
    this.asking = false;
  }

  #batch() {
    let size = 0;
    const fits = (block, index) => index < MOST_BLOCKS && (size += block.size) <= MOST_BYTES;
    const end = this.waiting.findIndex((block, index) => !fits(block, index));
    return this.waiting.splice(0, end === -1 ? this.waiting.length : end);
  }
}
