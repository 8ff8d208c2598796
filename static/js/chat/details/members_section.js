/** The people of a conversation in the pane of details: who is in it, and for its owner who else may be. */

import { copyOf, put } from "../../shared/elements.js";
import { fill, reason } from "../../shared/texts.js";

export function startPeopleSection(app) {
  const { words } = app;
  const at = (id) => document.getElementById(id);
  const [section, list, adding, form, field] = ["people", "people-list", "people-add", "people-form", "person-username"].map(at);
  const rows = new Map(); // username → element

  app.on("session", ({ same }) => {
    if (same) return;
    adding.open = false;
    form.reset();
    complain("");
  });
  app.on("people", draw);
  app.on("connection", draw);
  at("leave").addEventListener("click", () => app.sessions.leave(app.sessions.shown().key));
  field.addEventListener("input", () => complain(""));
  adding.addEventListener("toggle", () => adding.open && section.contains(document.activeElement) && field.focus());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    add(field.value.trim().replace(/^@/, ""), at("person-role").value);
  });

  function draw() {
    const { members, isOwner } = app.people;
    section.hidden = !members?.length;
    if (section.hidden) return;
    const alone = isOwner && members.length === 1;
    list.hidden = alone;
    at("people-none").hidden = !alone;
    adding.hidden = !isOwner || !app.writable;
    at("leave").hidden = isOwner || !app.writable || !members.some(({ username }) => username === app.username);
    const focused = [...rows].find(([, row]) => row.contains(document.activeElement))?.[0];
    for (const [username, row] of rows) if (!members.some((member) => member.username === username)) drop(username, row);
    members.forEach((member, place) => {
      const row = shown(member, isOwner && app.writable);
      if (list.children[place] !== row) list.insertBefore(row, list.children[place] ?? null);
    });
    if (focused && !rows.has(focused)) adding.querySelector("summary").focus(); // it has gone with its row
  }

  function drop(username, row) {
    row.remove();
    rows.delete(username);
  }

  function shown({ username, name, role }, mayChange) {
    if (!rows.has(username)) rows.set(username, rowOf(username, name));
    const row = rows.get(username);
    const part = (selector) => row.querySelector(selector);
    const isMe = username === app.username;
    const changes = mayChange && role !== "owner";
    put(part(".name"), isMe ? fill(words.personYou, name) : name);
    put(part(".username"), name === username ? "" : username);
    put(part(".role"), changes ? "" : { owner: words.personOwner, writer: words.personWrites, viewer: words.personReads }[role]);
    part("select").hidden = part(".remove").hidden = !changes;
    part("select").value = role;
    return row;
  }

  function rowOf(username, name) {
    const row = copyOf("person");
    const role = row.querySelector("select");
    const remove = row.querySelector(".remove");
    role.setAttribute("aria-label", fill(words.personRole, name));
    remove.title = fill(words.personRemove, name);
    remove.querySelector(".hidden").textContent = remove.title;
    role.addEventListener("change", () => change(username, role.value, () => app.say(told(name, role.value))));
    remove.addEventListener("click", () => takeAway(username, name, role.value));
    return row;
  }

  function takeAway(username, name, role) {
    const undo = () => change(username, role, () => app.say(told(name, role)));
    return change(username, null, () => app.notice(fill(words.personGone, name), { undo }));
  }

  /** Of those who are in it: when the server says no, what is shown is what it last said. */
  async function change(username, role, then) {
    complain("");
    try {
      await app.people.share(username, role);
      then();
    } catch (error) {
      complain(fill(words.notDone, reason(words, error)));
      draw();
    }
  }

  async function add(username, role) {
    if (!username) return complain(words.personMissing, true);
    if (username === app.username) return complain(words.personIsYou, true);
    complain("");
    try {
      await app.people.share(username, role);
    } catch (error) {
      const unknown = error.code === "NOT_FOUND";
      return complain(unknown ? fill(words.personUnknown, username) : fill(words.notDone, reason(words, error)), unknown);
    }
    field.value = "";
    field.focus();
    app.say(told(app.people.members.find((member) => member.username === username)?.name ?? username, role));
  }

  function told(name, role) {
    return fill(role === "writer" ? words.personMayWrite : words.personMayRead, name);
  }

  /** What is wrong, at the field if that is what has to be changed. */
  function complain(text, ofField = false) {
    put(at("person-error"), ofField ? text : "");
    put(at("people-error"), ofField ? "" : text);
    if (ofField) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
    if (ofField) field.focus();
  }
}
