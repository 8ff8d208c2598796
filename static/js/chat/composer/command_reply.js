/** Replies to commands: one line is shown as a toast, several lines stay above the composer until closed. */

import { StreamedText } from "../markdown/streamed_text.js";

export function startCommandReplies(app) {
  const box = document.getElementById("command-answer");
  const text = new StreamedText(box.querySelector(".text"), app.sessionView.transcript.page);

  app.on("command", ({ notice }) => {
    close();
    if (!notice) return;
    if (!notice.includes("\n")) return app.showToast(notice);
    text.settle(notice);
    box.hidden = false;
    app.announce(notice);
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
    /** Called on Escape and before sending; returns whether a reply was open. */
    close() {
      const wasOpen = !box.hidden;
      close();
      return wasOpen;
    },
  };
}
