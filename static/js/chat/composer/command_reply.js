/** What a command answered: a line goes by at the foot of the page, several stay above the composer until they were read. */

import { Answer } from "../markdown/streamed_text.js";

export function startCommandAnswers(app) {
  const box = document.getElementById("command-answer");
  const text = new Answer(box.querySelector(".text"), app.conversation.transcript.page);

  app.on("command", ({ notice }) => {
    close();
    if (!notice) return;
    if (!notice.includes("\n")) return app.notice(notice);
    text.settle(notice);
    box.hidden = false;
    app.say(notice);
  });
  app.on("session", close);
  box.querySelector(".close").addEventListener("click", () => {
    close();
    document.getElementById("message").focus();
  });

  function close() {
    box.hidden = true;
  }

  return {
    /** Escape, or the next message; true when there was something to close. */
    close() {
      const open = !box.hidden;
      close();
      return open;
    },
  };
}
