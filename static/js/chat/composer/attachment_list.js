/** Files attached to the draft. They are uploaded immediately, shown with progress, and kept per session. */

import { cloneTemplate, setText } from "../../shared/elements.js";
import { formatPercent, formatSize } from "../../shared/formats.js";
import { fill } from "../../shared/texts.js";
import { upload } from "./upload.js";

const IMAGE_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const THUMBNAIL_PIXELS = 96; // twice the displayed size

export function startAttachmentList(app, onChange) {
  const { texts } = app;
  const list = document.getElementById("attachments");
  const input = document.getElementById("files");
  const form = input.form;
  const limits = { files: Number(input.dataset.mostFiles), bytes: Number(input.dataset.mostBytes) };
  const bySession = new Map(); // session key → items
  let items = [];

  /** Show another session. Running uploads continue. */
  function show(sessionKey) {
    items = getItems(sessionKey);
    render();
  }

  function getItems(sessionKey) {
    if (!bySession.has(sessionKey)) bySession.set(sessionKey, []);
    return bySession.get(sessionKey);
  }

  /** @param {Iterable<File>} files selected, pasted or dropped */
  function add(files) {
    const problems = [];
    for (const file of files) {
      if (items.length >= limits.files) problems.push(fill(texts.tooManyFiles, limits.files));
      else if (!file.size) problems.push(fill(texts.fileEmpty, file.name));
      else if (file.size > limits.bytes) problems.push(fill(texts.fileTooLarge, file.name, formatSize(limits.bytes)));
      else addFile(file);
    }
    app.showProblem([...new Set(problems)].join(" "));
    render();
  }

  function addFile(file) {
    const item = createItem({ name: file.name, mimeType: file.type, size: file.size });
    item.file = file;
    items.push(item);
    if (IMAGE_TYPES.includes(file.type)) drawThumbnail(file, item.element.querySelector(".picture"));
    uploadItem(item, items);
  }

  async function uploadItem(item, sessionItems) {
    Object.assign(item, { state: "uploading", progress: 0, problem: "" });
    const token = form.querySelector("[name=csrfmiddlewaretoken]").value;
    const onProgress = (progress) => {
      item.progress = progress;
      update(item);
    };
    const { done, cancel } = upload(item.file, { url: form.dataset.uploads, token, onProgress });
    item.cancel = cancel;
    update(item);
    try {
      Object.assign(item, await done, { state: "done" });
      if (sessionItems === items) app.announce(fill(texts.uploaded, item.name));
    } catch (error) {
      Object.assign(item, { state: "failed", problem: describeUploadError(error), retryable: error.retryable });
      if (sessionItems === items) app.announce(`${item.name}: ${item.problem}`);
      item.element.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    update(item);
    onChange();
  }

  function describeUploadError({ status, message }) {
    const textsByStatus = { 0: texts.uploadLost, 413: texts.uploadTooLarge, 415: texts.uploadWrongKind };
    return message || textsByStatus[status] || (status === 401 || status === 403 ? texts.uploadRefused : texts.uploadFailed);
  }

  /** Add files that are already uploaded, from a message returned for editing. */
  function restore(sessionKey, files) {
    for (const file of files) {
      const item = createItem(file);
      Object.assign(item, { state: "done", id: file.id });
      if (IMAGE_TYPES.includes(file.mimeType)) {
        const image = document.createElement("img");
        image.alt = "";
        image.src = `/attachments/${encodeURIComponent(file.id)}/`;
        item.element.querySelector(".picture").replaceChildren(image);
      }
      getItems(sessionKey).push(item);
      update(item);
    }
    render();
  }

  function createItem({ name, mimeType, size: bytes }) {
    const item = {
      name,
      mimeType,
      size: bytes,
      element: cloneTemplate("upload"),
      state: "new",
      progress: 0,
      problem: "",
      cancel: () => {},
    };
    const find = (selector) => item.element.querySelector(selector);
    find(".name").textContent = name;
    find(".name").title = name;
    find(".remove").title = find(".remove .hidden").textContent = fill(texts.removeFile, name);
    find(".remove").addEventListener("click", () => remove(item));
    find(".again").addEventListener("click", () => uploadItem(item, items));
    return item;
  }

  function remove(item) {
    const index = items.indexOf(item);
    if (item.state === "uploading") item.cancel();
    items.splice(index, 1);
    render();
    const next = items[Math.min(index, items.length - 1)]?.element.querySelector(".remove");
    (next ?? document.getElementById("message")).focus();
  }

  function update({ element, state, progress, problem, retryable, size: bytes }) {
    const find = (selector) => element.querySelector(selector);
    element.dataset.state = state;
    setText(find(".state"), { failed: problem, uploading: formatPercent(progress) }[state] ?? formatSize(bytes));
    find("progress").hidden = state !== "uploading";
    find("progress").value = progress;
    find(".again").hidden = !(state === "failed" && retryable);
  }

  function render() {
    list.replaceChildren(...items.map(({ element }) => element));
    list.hidden = !items.length;
    onChange();
  }

  return {
    add,
    show,
    restore,
    get count() {
      return items.length;
    },
    /** Why the message can't be sent yet; empty if it can. */
    get blockedReason() {
      if (items.some(({ state }) => state === "failed")) return texts.notUploaded;
      return items.some(({ state }) => state === "uploading") ? texts.stillUploading : "";
    },
    /** Return the attachments for sending and clear the list. */
    takeAll() {
      const attachments = items.map(({ id, name, mimeType, size: bytes }) => ({ id, name, mimeType, size: bytes }));
      items.splice(0);
      render();
      return attachments;
    },
  };
}

/** Draws on a canvas because an <img> would need blob: URLs, which the Content Security Policy forbids. */
async function drawThumbnail(file, container) {
  try {
    const bitmap = await createImageBitmap(file);
    const scale = THUMBNAIL_PIXELS / Math.min(bitmap.width, bitmap.height);
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = THUMBNAIL_PIXELS;
    const [width, height] = [bitmap.width * scale, bitmap.height * scale];
    canvas.getContext("2d").drawImage(bitmap, (THUMBNAIL_PIXELS - width) / 2, (THUMBNAIL_PIXELS - height) / 2, width, height);
    bitmap.close();
    container.replaceChildren(canvas);
  } catch {
    // not a valid image: keep the file icon
  }
}
