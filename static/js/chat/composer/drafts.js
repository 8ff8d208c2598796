/**
 * Unsent text per session of an account. Drafts survive reloads and switching sessions.
 *
 * Drafts contain only text: after a day, the server deletes files that were uploaded but never sent. Without localStorage, drafts
 * last as long as the page.
 */

const DEBOUNCE_MS = 300; // drafts are saved after this pause in typing
const MAX_AGE_MS = 30 * 24 * 60 * 60 * 1000; // as long as a deleted session can be restored

export class Drafts {
  constructor(account) {
    this.prefix = `clawsite.draft.${account}.`;
    this.pending = new Map(); // session key → text
    this.timer = null;
    addEventListener("pagehide", () => this.flush());
    tryStorage(() => this.#removeOld());
  }

  read(sessionKey) {
    return this.pending.get(sessionKey) ?? tryStorage(() => JSON.parse(localStorage.getItem(this.prefix + sessionKey))?.text) ?? "";
  }

  /** Save after a pause in typing: the text may be long, and localStorage is synchronous. */
  write(sessionKey, text) {
    this.pending.set(sessionKey, text);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.flush(), DEBOUNCE_MS);
  }

  flush() {
    clearTimeout(this.timer);
    for (const [sessionKey, text] of this.pending) {
      const stored = tryStorage(() => {
        if (text) localStorage.setItem(this.prefix + sessionKey, JSON.stringify({ text, at: Date.now() }));
        else localStorage.removeItem(this.prefix + sessionKey);
        return true;
      });
      if (stored) this.pending.delete(sessionKey);
    }
  }

  #removeOld() {
    for (const [name, text] of Object.entries(localStorage)) {
      if (!name.startsWith(this.prefix)) continue;
      const { at } = tryStorage(() => JSON.parse(text)) ?? {};
      if (!(Date.now() - at < MAX_AGE_MS)) localStorage.removeItem(name);
    }
  }
}

/** Storage may be disabled, full or contain invalid data; continue without it. */
function tryStorage(operation) {
  try {
    return operation();
  } catch {
    return null;
  }
}
