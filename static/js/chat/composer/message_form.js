/** The composer: edits the text, attachments and draft of the next message, sends it, and stops runs. */

import { formatCount } from "../../shared/formats.js";
import { fill } from "../../shared/texts.js";
import { startAttachmentList } from "./attachment_list.js";
import { startCommandReplies } from "./command_reply.js";
import { startCompletions } from "./completions.js";
import { Drafts } from "./drafts.js";
import { startFileInputs } from "./file_inputs.js";
import { startQueue } from "./queue.js";

const WARN_RATIO = 0.95; // the remaining characters are shown from this fraction of the maximum length

export function startComposer(app) {
  const { texts } = app;
  const byId = (id) => document.getElementById(id);
  const [form, field, sendButton, stopButton, note] = ["composer", "message", "send", "stop", "composer-note"].map(byId);
  const maxCharacters = Number(field.dataset.limit);
  const drafts = new Drafts(app.account);
  const files = startAttachmentList(app, refresh);
  const queue = startQueue(app);
  const reply = startCommandReplies(app);
  const completions = startCompletions({ app, field, submit, onChange: handleInput });
  let sessionKey = null;
  let running = false;
  let accountReason = ""; // why the account cannot write
  let readOnlyReason = ""; // why the user cannot write in this session

  startFileInputs({ app, field, onFiles: files.add });

  /** Add text and files to the composer of a session, after its current content. */
  app.compose = (text, { attachments = [], to: targetKey = sessionKey } = {}) => {
    const combined = [targetKey === sessionKey ? field.value : drafts.read(targetKey), text].filter(Boolean).join("\n");
    files.restore(targetKey, attachments);
    if (targetKey !== sessionKey) return drafts.write(targetKey, combined);
    field.value = combined;
    handleInput();
    field.focus();
  };

  /** Focus the field, except on phones, where it would open the keyboard. */
  app.focusField = () => matchMedia("(hover: hover)").matches && field.focus();

  app.on("session", ({ key, messageId }) => {
    updateAccess();
    if (key !== sessionKey) {
      drafts.flush();
      sessionKey = key;
      field.value = drafts.read(key);
      files.show(key);
      resizeField();
      refresh();
    }
    if (!messageId) app.focusField();
  });
  app.on("connection", ({ name, hello }) => {
    if (name !== "ready") return;
    accountReason = app.writable ? "" : hello.auth.scopes.includes("operator.read") ? texts.readOnly : texts.mayNotChat;
    updateAccess();
  });
  app.on("members", updateAccess);
  app.on("runs", ({ unfinished, stopping }) => {
    running = unfinished > 0;
    updatePlaceholder();
    const text = stopping ? texts.stopping : texts.stop;
    if (stopping && !stopButton.disabled) app.announce(text);
    if (stopButton === document.activeElement && (!running || stopping)) field.focus();
    stopButton.hidden = !running || !app.canWrite();
    stopButton.disabled = stopping;
    stopButton.querySelector(".text").textContent = text;
  });

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  // Keeps the focus in the field, and a phone's keyboard open.
  sendButton.addEventListener("mousedown", (event) => event.preventDefault());
  stopButton.addEventListener("click", () => app.stop());
  field.addEventListener("input", handleInput);
  field.addEventListener("keydown", (event) => {
    // During IME composition, keys select candidates. Safari ends the composition before it reports the key, with code 229.
    if (event.isComposing || event.keyCode === 229) return;
    if (completions.handleKey(event) || handleKey(event)) event.preventDefault();
  });
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || isInDialog(event)) return;
    if (event.key === "Escape") handleEscape(event);
    else if (event.key === "/" && !isTyping(event.target) && !field.disabled) {
      event.preventDefault();
      field.focus();
    }
  });

  function handleKey({ key, shiftKey, altKey, ctrlKey, metaKey }) {
    if (key === "Enter" && !shiftKey && !altKey && (!hasScreenKeyboard() || ctrlKey || metaKey)) {
      submit();
      return true;
    }
    return key === "ArrowUp" && !shiftKey && !field.value && !files.count && (queue.editLast() || editLast());
  }

  /** Edit the user's last message in place (chat/messages/message_actions.js). */
  function editLast() {
    const ownMessages = document.querySelectorAll("#messages .run:not(.in-queue) .message.user:not(.of-other)");
    const button = [...ownMessages].at(-1)?.querySelector('[data-act="edit"]');
    button?.click();
    return Boolean(button);
  }

  function handleEscape(event) {
    if (reply.close()) event.preventDefault();
    else if (running && app.canWrite()) {
      event.preventDefault();
      app.stop();
    }
  }

  function submit() {
    const message = field.value;
    if (!app.canWrite() || (!message.trim() && !files.count)) return;
    const problem = countExcess() > 0 ? fill(texts.charactersOver, formatCount(countExcess())) : files.blockedReason;
    if (problem) return showNote(problem, true);
    reply.close();
    const attachments = files.takeAll();
    if (sendButton === document.activeElement) field.focus(); // the button is about to be disabled
    field.value = "";
    handleInput();
    drafts.flush();
    app.send({ message, attachments });
  }

  function handleInput() {
    drafts.write(sessionKey, field.value);
    resizeField();
    refresh();
  }

  /** Read-only users see the reason instead of the field; their draft is kept. */
  function updateAccess() {
    readOnlyReason = accountReason || app.members.readOnlyReason;
    field.disabled = byId("attach").disabled = !app.canWrite();
    form.classList.toggle("barred", Boolean(readOnlyReason));
    form.classList.toggle("viewing", Boolean(readOnlyReason && !accountReason));
    stopButton.hidden = !running || !app.canWrite();
    updatePlaceholder();
    refresh();
  }

  function updatePlaceholder() {
    field.placeholder = readOnlyReason || (running ? texts.writeNext : texts.write);
  }

  /** Update the send button and the note below the field. */
  function refresh() {
    sendButton.disabled = !app.canWrite() || (!field.value.trim() && !files.count);
    if (!app.writable) return;
    if (readOnlyReason) return showNote(readOnlyReason);
    if (countExcess() > 0) showNote(fill(texts.charactersOver, formatCount(countExcess())), true);
    else if (countExcess() > maxCharacters * (WARN_RATIO - 1)) showNote(fill(texts.charactersLeft, formatCount(-countExcess())));
    else showNote(files.blockedReason, files.blockedReason === texts.notUploaded);
  }

  /** Characters above the limit, counted as on the server: an emoji is one, not two. */
  function countExcess() {
    const { length } = field.value;
    return (length > maxCharacters * WARN_RATIO ? [...field.value].length : length) - maxCharacters;
  }

  function showNote(text, bad = false) {
    if (note.textContent !== text) note.textContent = text;
    note.classList.toggle("bad", bad);
  }

  /** For browsers without CSS field-sizing. */
  function resizeField() {
    if (CSS.supports("field-sizing", "content")) return;
    field.style.height = "auto";
    field.style.height = `${field.scrollHeight}px`;
  }
}

/** On-screen keyboards have no Shift+Enter, so there Enter inserts a line break. */
function hasScreenKeyboard() {
  return matchMedia("(hover: none) and (pointer: coarse)").matches;
}

/** Whether a dialog or menu is open, which handles keys itself. */
function isInDialog({ target }) {
  return Boolean(document.querySelector("dialog[open], :popover-open") || target.closest?.('[role="menu"], .menu'));
}

function isTyping({ isContentEditable, tagName }) {
  return isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(tagName);
}
