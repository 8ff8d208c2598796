/**
 * What was typed and not sent, for each session of an account. It outlives the page, and a look at another conversation.
 *
 * Text only: files that were attached are on the server, which forgets them after a day. Where nothing can be stored, drafts
 * live as long as the page.
 */

const PAUSE_MS = 300; // of typing, after which it is written down
const KEPT_MS = 30 * 24 * 60 * 60 * 1000; // as long as a deleted conversation can be brought back

export class Drafts {
  constructor(account) {
    this.prefix = `clawsite.draft.${account}.`;
    this.unwritten = new Map(); // session key → text
    this.timer = null;
    addEventListener("pagehide", () => this.flush());
    attempt(() => this.#forgetOld());
  }

  read(sessionKey) {
    return this.unwritten.get(sessionKey) ?? attempt(() => JSON.parse(localStorage.getItem(this.prefix + sessionKey))?.text) ?? "";
  }

  /** Not at every key: the text may be long, and storing it is no background work. */
  write(sessionKey, text) {
    this.unwritten.set(sessionKey, text);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.flush(), PAUSE_MS);
  }

  flush() {
    clearTimeout(this.timer);
    for (const [sessionKey, text] of this.unwritten) {
      const stored = attempt(() => {
        if (text) localStorage.setItem(this.prefix + sessionKey, JSON.stringify({ text, at: Date.now() }));
        else localStorage.removeItem(this.prefix + sessionKey);
        return true;
      });
      if (stored) this.unwritten.delete(sessionKey);
    }
  }

  #forgetOld() {
    for (const [name, text] of Object.entries(localStorage)) {
      if (!name.startsWith(this.prefix)) continue;
      const { at } = attempt(() => JSON.parse(text)) ?? {};
      if (!(Date.now() - at < KEPT_MS)) localStorage.removeItem(name);
    }
  }
}

/** Storage may be switched off or full, and anybody can write nonsense into it: then go without. */
function attempt(step) {
  try {
    return step();
  } catch {
    return null;
  }
}
