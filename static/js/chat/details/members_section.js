/** The members of a session in the details pane. The owner can add, change and remove them. */

import { cloneTemplate, setText } from "../../shared/elements.js";
import { describeError, fill } from "../../shared/texts.js";

export function startMembersSection(app) {
  const { texts } = app;
  const byId = (id) => document.getElementById(id);
  const [section, list, adding, form, field] = ["people", "people-list", "people-add", "people-form", "person-username"].map(byId);
  const rows = new Map(); // username → element

  app.on("session", ({ same }) => {
    if (same) return;
    adding.open = false;
    form.reset();
    showError("");
  });
  app.on("members", render);
  app.on("connection", render);
  byId("leave").addEventListener("click", () => app.sessions.leave(app.sessions.getCurrent().key));
  field.addEventListener("input", () => showError(""));
  adding.addEventListener("toggle", () => adding.open && section.contains(document.activeElement) && field.focus());
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    add(field.value.trim().replace(/^@/, ""), byId("person-role").value);
  });

  function render() {
    const { list: members, isOwner } = app.members;
    section.hidden = !members?.length;
    if (section.hidden) return;
    const isAlone = isOwner && members.length === 1;
    list.hidden = isAlone;
    byId("people-none").hidden = !isAlone;
    adding.hidden = !isOwner || !app.writable;
    byId("leave").hidden = isOwner || !app.writable || !members.some(({ username }) => username === app.username);
    const focused = [...rows].find(([, row]) => row.contains(document.activeElement))?.[0];
    for (const [username, row] of rows) if (!members.some((member) => member.username === username)) removeRow(username, row);
    members.forEach((member, index) => {
      const row = updateRow(member, isOwner && app.writable);
      if (list.children[index] !== row) list.insertBefore(row, list.children[index] ?? null);
    });
    if (focused && !rows.has(focused)) adding.querySelector("summary").focus(); // the focused row was removed
  }

  function removeRow(username, row) {
    row.remove();
    rows.delete(username);
  }

  function updateRow({ username, name, role }, canChange) {
    if (!rows.has(username)) rows.set(username, createRow(username, name));
    const row = rows.get(username);
    const find = (selector) => row.querySelector(selector);
    const isMe = username === app.username;
    const isEditable = canChange && role !== "owner";
    setText(find(".name"), isMe ? fill(texts.personYou, name) : name);
    setText(find(".username"), name === username ? "" : username);
    setText(
      find(".role"),
      isEditable ? "" : { owner: texts.personOwner, writer: texts.personWrites, viewer: texts.personReads }[role],
    );
    find("select").hidden = find(".remove").hidden = !isEditable;
    find("select").value = role;
    return row;
  }

  function createRow(username, name) {
    const row = cloneTemplate("person");
    const role = row.querySelector("select");
    const remove = row.querySelector(".remove");
    role.setAttribute("aria-label", fill(texts.personRole, name));
    remove.title = fill(texts.personRemove, name);
    remove.querySelector(".hidden").textContent = remove.title;
    role.addEventListener("change", () => change(username, role.value, () => app.announce(describeRole(name, role.value))));
    remove.addEventListener("click", () => removeMember(username, name, role.value));
    return row;
  }

  function removeMember(username, name, role) {
    const undo = () => change(username, role, () => app.announce(describeRole(name, role)));
    return change(username, null, () => app.showToast(fill(texts.personGone, name), { undo }));
  }

  /** Change or remove a member. On failure, show the last known state. */
  async function change(username, role, onSuccess) {
    showError("");
    try {
      await app.members.share(username, role);
      onSuccess();
    } catch (error) {
      showError(fill(texts.notDone, describeError(error, texts)));
      render();
    }
  }

  async function add(username, role) {
    if (!username) return showError(texts.personMissing, true);
    if (username === app.username) return showError(texts.personIsYou, true);
    showError("");
    try {
      await app.members.share(username, role);
    } catch (error) {
      const isUnknownUser = error.code === "NOT_FOUND";
      return showError(
        isUnknownUser ? fill(texts.personUnknown, username) : fill(texts.notDone, describeError(error, texts)),
        isUnknownUser,
      );
    }
    field.value = "";
    field.focus();
    app.announce(describeRole(app.members.list.find((member) => member.username === username)?.name ?? username, role));
  }

  function describeRole(name, role) {
    return fill(role === "writer" ? texts.personMayWrite : texts.personMayRead, name);
  }

  /** Show an error, next to the username field if that needs to be corrected. */
  function showError(text, isFieldError = false) {
    setText(byId("person-error"), isFieldError ? text : "");
    setText(byId("people-error"), isFieldError ? "" : text);
    if (isFieldError) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
    if (isFieldError) field.focus();
  }
}
