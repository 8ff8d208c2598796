/**
 * What was typed and not sent, for each session of an account. It outlives the page, and a look at another conversation.
 *
 * Text only: files that were attached are on the server, which forgets them after a day. Where nothing can be stored, drafts
 * live as long as the page.
 */

const PAUSE_MS = 300; // of typing, after which it is written down
const MAX_AGE_MS = 30 * 24 * 60 * 60 * 1000; // as long as a deleted conversation can be brought back

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

  /** Not at every key: the text may be long, and storing it is no background work. */
  write(sessionKey, text) {
    this.pending.set(sessionKey, text);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.flush(), PAUSE_MS);
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

/** Storage may be switched off or full, and anybody can write nonsense into it: then go without. */
function tryStorage(step) {
  try {
    return step();
  } catch {
    return null;
  }
}
