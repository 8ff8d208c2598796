/** Images and files of messages and tool results, loaded only from this server. */

import { cloneTemplate, getBlocks } from "../../shared/elements.js";
import { formatSize } from "../../shared/formats.js";

const IMAGE_TYPES = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/** Render the images and files in a message's content. */
export function renderFiles(content, texts) {
  return getBlocks(content)
    .filter(({ type, attachmentId }) => (type === "image" || type === "file") && attachmentId)
    .map((block) => renderFile({ ...block, id: block.attachmentId }, texts));
}

/** @param {{id: string, name?: string, mimeType?: string, size?: number}} file */
export function renderFile({ id, name, mimeType, size: bytes }, texts) {
  const isImage = IMAGE_TYPES.includes(mimeType);
  const link = cloneTemplate(isImage ? "attached-image" : "attached-file");
  link.href = `/attachments/${encodeURIComponent(id)}/`;
  if (isImage) {
    const image = link.querySelector("img");
    image.src = link.href;
    image.alt = name || texts.image;
  } else {
    link.querySelector(".name").textContent = name || texts.file;
    link.querySelector(".size").textContent = bytes ? formatSize(bytes) : "";
  }
  return link;
}
