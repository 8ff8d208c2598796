/** Reports the current session as read, so that no window of this account shows it as unread. */

const DEBOUNCE_MS = 300; // the end of an answer triggers several updates

export function startReadMarks(app) {
  const { gateway } = app;
  let timer = null;

  app.on("history", markRead);
  app.on("sessions", () => app.sessions.getCurrent().unread && markReadSoon());
  app.on("event", ({ payload: { sessionKey, data, change } }) => {
    const hasNewContent = data?.phase === "end" || data?.phase === "error" || change === "injected";
    if (hasNewContent && sessionKey === app.feed.sessionKey) markReadSoon();
  });
  document.addEventListener("visibilitychange", markReadSoon);

  function markReadSoon() {
    clearTimeout(timer);
    timer = setTimeout(markRead, DEBOUNCE_MS);
  }

  /** A session without messages has no ID yet. Errors are ignored: the next trigger retries. */
  function markRead() {
    const { loaded, sessionId, sessionKey } = app.feed;
    if (document.visibilityState !== "visible" || !loaded || !sessionId || !app.writable || !gateway.ready) return;
    app.sessions.markRead(sessionKey, gateway.request("sessions.read", { key: sessionKey }));
  }
}
