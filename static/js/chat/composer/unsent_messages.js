/**
 * Messages the server has not accepted yet. They survive reloads and are resent under the same key. After a day they may be
 * outdated and are kept until their author sends or discards them.
 *
 * Each message is a separate localStorage item, so that two windows do not overwrite each other, stored by account, so that another
 * user of the browser does not send it. Without localStorage they last as long as the page.
 */

const DAY_MS = 24 * 60 * 60 * 1000;

export class UnsentMessages {
  constructor(account) {
    this.prefix = `clawsite.unsent.${account}.`;
    this.messages = new Map(this.#readStored()); // run id → {sessionKey, message, attachments?, replaces?, at}
  }

  add(runId, params) {
    const stored = { ...params, at: Date.now() };
    this.messages.set(runId, stored);
    tryStorage(() => localStorage.setItem(this.prefix + runId, JSON.stringify(stored)));
  }

  /** Remove a message that the server has accepted or rejected, or the user has discarded. */
  remove(runId) {
    if (this.messages.delete(runId)) tryStorage(() => localStorage.removeItem(this.prefix + runId));
  }

  has(runId) {
    return this.messages.has(runId);
  }

  get(runId) {
    return this.messages.get(runId);
  }

  /** Whether it is too old to be sent without confirmation. */
  isStale(runId) {
    return Date.now() - this.messages.get(runId).at > DAY_MS;
  }

  /** List [run ID, {sessionKey, message, …}], oldest first, for one session or all. */
  list(sessionKey = null) {
    return [...this.messages].filter(([, stored]) => sessionKey === null || stored.sessionKey === sessionKey);
  }

  #readStored() {
    const entries = tryStorage(() => Object.entries(localStorage).filter(([name]) => name.startsWith(this.prefix))) ?? [];
    return entries
      .map(([name, json]) => [name.slice(this.prefix.length), tryStorage(() => JSON.parse(json))])
      .filter(([, stored]) => stored?.sessionKey && typeof stored.message === "string")
      .sort(([, a], [, b]) => a.at - b.at);
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
