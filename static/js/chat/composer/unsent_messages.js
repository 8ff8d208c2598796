/**
 * Messages that the server has not accepted yet. They outlive the page: a reload finds them again and sends them under the same key.
 * After a day they may no longer be meant: then they are only kept, until their author sends or discards them.
 *
 * Each is an item of its own in localStorage, so that two windows do not overwrite each other's, and is filed under the account,
 * so that nobody else who signs in on this browser sends it. Where nothing can be stored they live as long as the page.
 */

const DAY_MS = 24 * 60 * 60 * 1000;

export class Unsent {
  constructor(account) {
    this.prefix = `clawsite.unsent.${account}.`;
    this.messages = new Map(this.#stored()); // run id → {sessionKey, message, attachments?, replaces?, at}
  }

  add(runId, params) {
    const kept = { ...params, at: Date.now() };
    this.messages.set(runId, kept);
    attempt(() => localStorage.setItem(this.prefix + runId, JSON.stringify(kept)));
  }

  /** The server has accepted or refused it. */
  remove(runId) {
    if (this.messages.delete(runId)) attempt(() => localStorage.removeItem(this.prefix + runId));
  }

  has(runId) {
    return this.messages.has(runId);
  }

  get(runId) {
    return this.messages.get(runId);
  }

  /** Whether it was written too long ago to be sent without asking. */
  isOld(runId) {
    return Date.now() - this.messages.get(runId).at > DAY_MS;
  }

  /** [run id, {sessionKey, message, …}], in the order of writing; of one session or of all. */
  list(sessionKey = null) {
    return [...this.messages].filter(([, kept]) => sessionKey === null || kept.sessionKey === sessionKey);
  }

  #stored() {
    const found = attempt(() => Object.entries(localStorage).filter(([name]) => name.startsWith(this.prefix))) ?? [];
    return found
      .map(([name, text]) => [name.slice(this.prefix.length), attempt(() => JSON.parse(text))])
      .filter(([, kept]) => kept?.sessionKey && typeof kept.message === "string")
      .sort(([, one], [, other]) => one.at - other.at);
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
