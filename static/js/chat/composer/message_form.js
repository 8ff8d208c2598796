/** The composer: the message being written with its files, its draft, sending it, stopping the runs. */

import { formatCount } from "../../shared/formats.js";
import { fill } from "../../shared/texts.js";
import { startAttachmentList } from "./attachment_list.js";
import { startCommandReplies } from "./command_reply.js";
import { startCompletions } from "./completions.js";
import { Drafts } from "./drafts.js";
import { startFileInputs } from "./file_inputs.js";
import { startQueue } from "./queue.js";

const WARN_SHARE = 0.95; // of the most characters: from here on it says how many are left

export function startComposer(app) {
  const { texts } = app;
  const byId = (id) => document.getElementById(id);
  const [form, field, send, stop, note] = ["composer", "message", "send", "stop", "composer-note"].map(byId);
  const maxCharacters = Number(field.dataset.limit);
  const drafts = new Drafts(app.account);
  const files = startAttachmentList(app, refresh);
  const queue = startQueue(app);
  const reply = startCommandReplies(app);
  const menu = startCompletions({ app, field, submit, onChange: handleInput });
  let sessionKey = null;
  let running = false;
  let accountReason = ""; // why the account may not write
  let readOnlyReason = ""; // why one may not write here

  startFileInputs({ app, field, onFiles: files.add });

  /** Put text and files into the composer of a session, beside what stands there. */
  app.compose = (text, { attachments = [], to = sessionKey } = {}) => {
    const whole = [to === sessionKey ? field.value : drafts.read(to), text].filter(Boolean).join("\n");
    files.restore(to, attachments);
    if (to !== sessionKey) return drafts.write(to, whole);
    field.value = whole;
    handleInput();
    field.focus();
  };

  /** Not on a phone, where it would bring up the keyboard. */
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
    if (stopping && !stop.disabled) app.announce(text);
    if (stop === document.activeElement && (!running || stopping)) field.focus();
    stop.hidden = !running || !app.canWrite();
    stop.disabled = stopping;
    stop.querySelector(".text").textContent = text;
  });

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  send.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus, a phone its keyboard
  stop.addEventListener("click", () => app.stop());
  field.addEventListener("input", handleInput);
  field.addEventListener("keydown", (event) => {
    // While an input method composes, keys choose among its words. Safari ends composing before it tells of the key: 229.
    if (event.isComposing || event.keyCode === 229) return;
    if (menu.handleKey(event) || handleKey(event)) event.preventDefault();
  });
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || isInDialog(event)) return;
    if (event.key === "Escape") escape(event);
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

  /** The last message of one's own, where it stands (chat/messages/message_actions.js). */
  function editLast() {
    const mine = document.querySelectorAll("#messages .run:not(.in-queue) .message.user:not(.of-other)");
    const button = [...mine].at(-1)?.querySelector('[data-act="edit"]');
    button?.click();
    return Boolean(button);
  }

  function escape(event) {
    if (reply.close()) event.preventDefault();
    else if (running && app.canWrite()) {
      event.preventDefault();
      app.stop();
    }
  }

  function submit() {
    const message = field.value;
    if (!app.canWrite() || (!message.trim() && !files.count)) return;
    const obstacle = countOver() > 0 ? fill(texts.charactersOver, formatCount(countOver())) : files.obstacle;
    if (obstacle) return showNote(obstacle, true);
    reply.close();
    const attachments = files.take();
    if (send === document.activeElement) field.focus(); // there is nothing to send any more
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

  /** Whoever may only read gets the reason in place of the field; what they had written stays. */
  function updateAccess() {
    readOnlyReason = accountReason || app.members.readOnlyReason;
    field.disabled = byId("attach").disabled = !app.canWrite();
    form.classList.toggle("barred", Boolean(readOnlyReason));
    form.classList.toggle("viewing", Boolean(readOnlyReason && !accountReason));
    stop.hidden = !running || !app.canWrite();
    updatePlaceholder();
    refresh();
  }

  function updatePlaceholder() {
    field.placeholder = readOnlyReason || (running ? texts.writeNext : texts.write);
  }

  /** What can be done now, and why not. */
  function refresh() {
    send.disabled = !app.canWrite() || (!field.value.trim() && !files.count);
    if (!app.writable) return;
    if (readOnlyReason) return showNote(readOnlyReason);
    if (countOver() > 0) showNote(fill(texts.charactersOver, formatCount(countOver())), true);
    else if (countOver() > maxCharacters * (WARN_SHARE - 1)) showNote(fill(texts.charactersLeft, formatCount(-countOver())));
    else showNote(files.obstacle, files.obstacle === texts.notUploaded);
  }

  /** By how many characters it is too long, as the server counts them: an emoji is one, not two. */
  function countOver() {
    const { length } = field.value;
    return (length > maxCharacters * WARN_SHARE ? [...field.value].length : length) - maxCharacters;
  }

  function showNote(text, bad = false) {
    if (note.textContent !== text) note.textContent = text;
    note.classList.toggle("bad", bad);
  }

  /** Where the style sheet cannot make it grow (field-sizing). */
  function resizeField() {
    if (CSS.supports("field-sizing", "content")) return;
    field.style.height = "auto";
    field.style.height = `${field.scrollHeight}px`;
  }
}

/** On a keyboard without Shift+Enter, Enter starts a new line. */
function hasScreenKeyboard() {
  return matchMedia("(hover: none) and (pointer: coarse)").matches;
}

/** In a dialog or a menu, which have their own use for keys. */
function isInDialog({ target }) {
  return Boolean(document.querySelector("dialog[open], :popover-open") || target.closest?.('[role="menu"], .menu'));
}

function isTyping({ isContentEditable, tagName }) {
  return isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(tagName);
}
