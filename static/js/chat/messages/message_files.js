/** Images and files that belong to a message or a tool's result. They are loaded from our own server only. */

import { copyOf } from "../../shared/elements.js";
import { size } from "../../shared/formats.js";
import { blocksOf } from "../../shared/elements.js";

const SHOWN = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/** Elements for the images and files among the blocks of a content. */
export function attachmentsOf(content, words) {
  return blocksOf(content)
    .filter(({ type, attachmentId }) => (type === "image" || type === "file") && attachmentId)
    .map((block) => attached({ ...block, id: block.attachmentId }, words));
}

/** @param {{id: string, name?: string, mimeType?: string, size?: number}} file */
export function attached({ id, name, mimeType, size: bytes }, words) {
  const picture = SHOWN.includes(mimeType);
  const link = copyOf(picture ? "attached-image" : "attached-file");
  link.href = `/attachments/${encodeURIComponent(id)}/`;
  if (picture) {
    const image = link.querySelector("img");
    image.src = link.href;
    image.alt = name || words.image;
  } else {
    link.querySelector(".name").textContent = name || words.file;
    link.querySelector(".size").textContent = bytes ? size(bytes) : "";
  }
  return link;
}
