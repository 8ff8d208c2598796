/** Files attached to the message being written: uploaded at once, shown with their progress, each session its own. */

import { copyOf, put } from "../../shared/elements.js";
import { percent, size } from "../../shared/formats.js";
import { upload } from "./upload.js";
import { fill } from "../../shared/texts.js";

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
const EDGE = 96; // pixels of a thumbnail, twice what it has on the page

export function startAttachments(app, onChange) {
  const { words } = app;
  const list = document.getElementById("attachments");
  const input = document.getElementById("files");
  const form = input.form;
  const most = { files: Number(input.dataset.mostFiles), bytes: Number(input.dataset.mostBytes) };
  const bySession = new Map(); // session key → items
  let items = [];

  /** Another conversation is shown. What is being uploaded for the last one goes on. */
  function show(sessionKey) {
    items = of(sessionKey);
    draw();
  }

  function of(sessionKey) {
    if (!bySession.has(sessionKey)) bySession.set(sessionKey, []);
    return bySession.get(sessionKey);
  }

  /** @param {Iterable<File>} files chosen, pasted or dropped */
  function add(files) {
    const problems = [];
    for (const file of files) {
      if (items.length >= most.files) problems.push(fill(words.tooManyFiles, most.files));
      else if (!file.size) problems.push(fill(words.fileEmpty, file.name));
      else if (file.size > most.bytes) problems.push(fill(words.fileTooLarge, file.name, size(most.bytes)));
      else begin(file);
    }
    app.problem([...new Set(problems)].join(" "));
    draw();
  }

  function begin(file) {
    const item = made({ name: file.name, mimeType: file.type, size: file.size });
    item.file = file;
    items.push(item);
    if (PICTURES.includes(file.type)) drawThumbnail(file, item.element.querySelector(".picture"));
    send(item, items);
  }

  async function send(item, home) {
    Object.assign(item, { state: "uploading", share: 0, problem: "" });
    const token = form.querySelector("[name=csrfmiddlewaretoken]").value;
    const onProgress = (share) => {
      item.share = share;
      update(item);
    };
    const { done, cancel } = upload(item.file, { url: form.dataset.uploads, token, onProgress });
    item.cancel = cancel;
    update(item);
    try {
      Object.assign(item, await done, { state: "done" });
      if (home === items) app.say(fill(words.uploaded, item.name));
    } catch (error) {
      Object.assign(item, { state: "failed", problem: explained(error), retryable: error.retryable });
      if (home === items) app.say(`${item.name}: ${item.problem}`);
      item.element.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
    update(item);
    onChange();
  }

  function explained({ status, message }) {
    const known = { 0: words.uploadLost, 413: words.uploadTooLarge, 415: words.uploadWrongKind };
    return message || known[status] || (status === 401 || status === 403 ? words.uploadRefused : words.uploadFailed);
  }

  /** A file that is on the server already: of a message that comes back to be changed. */
  function giveBack(sessionKey, files) {
    for (const file of files) {
      const item = made(file);
      Object.assign(item, { state: "done", id: file.id });
      if (PICTURES.includes(file.mimeType)) {
        const image = document.createElement("img");
        image.alt = "";
        image.src = `/attachments/${encodeURIComponent(file.id)}/`;
        item.element.querySelector(".picture").replaceChildren(image);
      }
      of(sessionKey).push(item);
      update(item);
    }
    draw();
  }

  function made({ name, mimeType, size: bytes }) {
    const item = { name, mimeType, size: bytes, element: copyOf("upload"), state: "new", share: 0, problem: "", cancel: () => {} };
    const part = (selector) => item.element.querySelector(selector);
    part(".name").textContent = name;
    part(".name").title = name;
    part(".remove").title = part(".remove .hidden").textContent = fill(words.removeFile, name);
    part(".remove").addEventListener("click", () => remove(item));
    part(".again").addEventListener("click", () => send(item, items));
    return item;
  }

  function remove(item) {
    const place = items.indexOf(item);
    if (item.state === "uploading") item.cancel();
    items.splice(place, 1);
    draw();
    const next = items[Math.min(place, items.length - 1)]?.element.querySelector(".remove");
    (next ?? document.getElementById("message")).focus();
  }

  function update({ element, state, share, problem, retryable, size: bytes }) {
    const part = (selector) => element.querySelector(selector);
    element.dataset.state = state;
    put(part(".state"), { failed: problem, uploading: percent(share) }[state] ?? size(bytes));
    part("progress").hidden = state !== "uploading";
    part("progress").value = share;
    part(".again").hidden = !(state === "failed" && retryable);
  }

  function draw() {
    list.replaceChildren(...items.map(({ element }) => element));
    list.hidden = !items.length;
    onChange();
  }

  return {
    add,
    show,
    giveBack,
    get count() {
      return items.length;
    },
    /** Why the message cannot be sent yet, in words; nothing when it can. */
    get obstacle() {
      if (items.some(({ state }) => state === "failed")) return words.notUploaded;
      return items.some(({ state }) => state === "uploading") ? words.stillUploading : "";
    },
    /** What goes with the message; the next one begins without. */
    take() {
      const taken = items.map(({ id, name, mimeType, size: bytes }) => ({ id, name, mimeType, size: bytes }));
      items.splice(0);
      draw();
      return taken;
    },
  };
}

/** On a canvas: an <img> would need blob: addresses, which the content policy does not allow. */
async function drawThumbnail(file, place) {
  try {
    const bitmap = await createImageBitmap(file);
    const scale = EDGE / Math.min(bitmap.width, bitmap.height);
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = EDGE;
    const [width, height] = [bitmap.width * scale, bitmap.height * scale];
    canvas.getContext("2d").drawImage(bitmap, (EDGE - width) / 2, (EDGE - height) / 2, width, height);
    bitmap.close();
    place.replaceChildren(canvas);
  } catch {
    // not the picture it says it is: it keeps the sign of a file
  }
}
