/** What is on the screen has been read: the server is told, so that no list of this account calls it new. */

const CALM_MS = 300; // several reasons come together when an answer ends

export function startReadMarks(app) {
  const { gateway } = app;
  let timer = null;

  app.on("history", tell);
  app.on("sessions", () => app.sessions.shown().unread && seen());
  app.on("event", ({ payload: { sessionKey, data, change } }) => {
    const isNews = data?.phase === "end" || data?.phase === "error" || change === "injected";
    if (isNews && sessionKey === app.feed.sessionKey) seen();
  });
  document.addEventListener("visibilitychange", seen);

  function seen() {
    clearTimeout(timer);
    timer = setTimeout(tell, CALM_MS);
  }

  /** A conversation nobody has written in has no id yet. Failing is no news: the next reason tells again. */
  function tell() {
    const { loaded, sessionId, sessionKey } = app.feed;
    if (document.visibilityState !== "visible" || !loaded || !sessionId || !app.writable || !gateway.ready) return;
    app.sessions.expectRead(sessionKey, gateway.request("sessions.read", { key: sessionKey }));
  }
}
