/**
 * A command can be approved when all of it has been shown: its end must have come into view, inside its box and on the screen.
 *
 * Without this script the whole text is on the page and nothing is held back; the server refuses what it did not show.
 */

const read = new WeakSet(); // boxes of commands

const ends = new IntersectionObserver((entries) => {
  for (const { isIntersecting, target } of entries) {
    if (!isIntersecting) continue;
    ends.unobserve(target);
    const box = target.closest(".command");
    read.add(box);
    const question = box.closest(".question");
    if (question) release(question);
  }
});

/** Hold back the answers of a card until its command has been read. */
export function holdBack(question) {
  const box = question.querySelector(".command");
  if (!box || question.dataset.status !== "pending" || read.has(box)) return release(question);
  for (const element of question.querySelectorAll("[data-after-reading]")) bar(element, true);
  const note = question.querySelector(".unread");
  box.classList.add("folds");
  // Only what does not fit its box needs to be said; the rest comes into view by itself.
  if (note) note.hidden = box.scrollHeight <= box.clientHeight + 1;
  question.querySelector("[data-act=unfold]")?.addEventListener("click", () => {
    box.classList.remove("folds");
    note.hidden = true;
    box.focus();
  });
  ends.observe(box.querySelector(".end"));
}

export function isRead(question) {
  return !question.querySelector("[data-after-reading][aria-disabled=true], [data-after-reading]:disabled");
}

function release(question) {
  for (const element of question.querySelectorAll("[data-after-reading]")) bar(element, false);
  const note = question.querySelector(".unread");
  if (note) note.hidden = true;
  question.dispatchEvent(new CustomEvent("read", { bubbles: true }));
}

function bar(element, barred) {
  if (element.matches("summary")) {
    element.setAttribute("aria-disabled", String(barred));
    if (barred) element.closest("details").open = false;
  } else element.disabled = barred;
}

// A <summary> cannot be disabled, so its click is.
document.addEventListener("click", (event) => {
  if (event.target.closest?.("summary[aria-disabled=true]")) event.preventDefault();
});
