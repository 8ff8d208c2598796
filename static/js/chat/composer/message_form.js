/** The composer: the message being written with its files, its draft, sending it, stopping the runs. */

import { startAttachments } from "./attachment_list.js";
import { startCommandAnswers } from "./command_reply.js";
import { Drafts } from "./drafts.js";
import { startFileSources } from "./file_inputs.js";
import { count } from "../../shared/formats.js";
import { startQueue } from "./queue.js";
import { startSlashMenu } from "./completions.js";
import { fill } from "../../shared/texts.js";

const NEAR = 0.95; // of the most characters: from here on it says how many are left

export function startComposer(app) {
  const { words } = app;
  const at = (id) => document.getElementById(id);
  const [form, field, send, stop, note] = ["composer", "message", "send", "stop", "composer-note"].map(at);
  const most = Number(field.dataset.limit);
  const drafts = new Drafts(app.account);
  const files = startAttachments(app, refresh);
  const queue = startQueue(app);
  const answer = startCommandAnswers(app);
  const menu = startSlashMenu({ app, field, submit, onChange: changed });
  let sessionKey = null;
  let running = false;
  let account = ""; // why the account may not write
  let barred = ""; // why one may not write here

  startFileSources({ app, field, onFiles: files.add });

  /** Put text and files into the composer of a session, beside what stands there. */
  app.compose = (text, { attachments = [], to = sessionKey } = {}) => {
    const whole = [to === sessionKey ? field.value : drafts.read(to), text].filter(Boolean).join("\n");
    files.giveBack(to, attachments);
    if (to !== sessionKey) return drafts.write(to, whole);
    field.value = whole;
    changed();
    field.focus();
  };

  /** Not on a phone, where it would bring up the keyboard. */
  app.focusField = () => matchMedia("(hover: hover)").matches && field.focus();

  app.on("session", ({ key, messageId }) => {
    bar();
    if (key !== sessionKey) {
      drafts.flush();
      sessionKey = key;
      field.value = drafts.read(key);
      files.show(key);
      grow();
      refresh();
    }
    if (!messageId) app.focusField();
  });
  app.on("connection", ({ name, hello }) => {
    if (name !== "ready") return;
    account = app.writable ? "" : hello.auth.scopes.includes("operator.read") ? words.readOnly : words.mayNotChat;
    bar();
  });
  app.on("people", bar);
  app.on("runs", ({ unfinished, stopping }) => {
    running = unfinished > 0;
    invite();
    const text = stopping ? words.stopping : words.stop;
    if (stopping && !stop.disabled) app.say(text);
    if (stop === document.activeElement && (!running || stopping)) field.focus();
    stop.hidden = !running || !app.mayWrite();
    stop.disabled = stopping;
    stop.querySelector(".text").textContent = text;
  });

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  send.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus, a phone its keyboard
  stop.addEventListener("click", () => app.stop());
  field.addEventListener("input", changed);
  field.addEventListener("keydown", (event) => {
    // While an input method composes, keys choose among its words. Safari ends composing before it tells of the key: 229.
    if (event.isComposing || event.keyCode === 229) return;
    if (menu.take(event) || takeKey(event)) event.preventDefault();
  });
  addEventListener("keydown", (event) => {
    if (event.defaultPrevented || event.isComposing || isElsewhere(event)) return;
    if (event.key === "Escape") escape(event);
    else if (event.key === "/" && !isTyping(event.target) && !field.disabled) {
      event.preventDefault();
      field.focus();
    }
  });

  function takeKey({ key, shiftKey, altKey, ctrlKey, metaKey }) {
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
    if (answer.close()) event.preventDefault();
    else if (running && app.mayWrite()) {
      event.preventDefault();
      app.stop();
    }
  }

  function submit() {
    const message = field.value;
    if (!app.mayWrite() || (!message.trim() && !files.count)) return;
    const obstacle = over() > 0 ? fill(words.charactersOver, count(over())) : files.obstacle;
    if (obstacle) return tell(obstacle, true);
    answer.close();
    const attachments = files.take();
    if (send === document.activeElement) field.focus(); // there is nothing to send any more
    field.value = "";
    changed();
    drafts.flush();
    app.send({ message, attachments });
  }

  function changed() {
    drafts.write(sessionKey, field.value);
    grow();
    refresh();
  }

  /** Whoever may only read gets the reason in place of the field; what they had written stays. */
  function bar() {
    barred = account || app.people.barred;
    field.disabled = at("attach").disabled = !app.mayWrite();
    form.classList.toggle("barred", Boolean(barred));
    form.classList.toggle("viewing", Boolean(barred && !account));
    stop.hidden = !running || !app.mayWrite();
    invite();
    refresh();
  }

  function invite() {
    field.placeholder = barred || (running ? words.writeNext : words.write);
  }

  /** What can be done now, and why not. */
  function refresh() {
    send.disabled = !app.mayWrite() || (!field.value.trim() && !files.count);
    if (!app.writable) return;
    if (barred) return tell(barred);
    if (over() > 0) tell(fill(words.charactersOver, count(over())), true);
    else if (over() > most * (NEAR - 1)) tell(fill(words.charactersLeft, count(-over())));
    else tell(files.obstacle, files.obstacle === words.notUploaded);
  }

  /** By how many characters it is too long, as the server counts them: an emoji is one, not two. */
  function over() {
    const { length } = field.value;
    return (length > most * NEAR ? [...field.value].length : length) - most;
  }

  function tell(text, bad = false) {
    if (note.textContent !== text) note.textContent = text;
    note.classList.toggle("bad", bad);
  }

  /** Where the style sheet cannot make it grow (field-sizing). */
  function grow() {
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
function isElsewhere({ target }) {
  return Boolean(document.querySelector("dialog[open], :popover-open") || target.closest?.('[role="menu"], .menu'));
}

function isTyping({ isContentEditable, tagName }) {
  return isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(tagName);
}
