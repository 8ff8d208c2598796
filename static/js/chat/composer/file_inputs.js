/** Ways to attach files: the button, pasting, and dropping anywhere on the page. */

/** @param {{app: object, field: Element, onFiles: (files: File[]) => void}} options */
export function startFileInputs({ app, field, onFiles }) {
  const input = document.getElementById("files");
  const button = document.getElementById("attach");
  const dropOverlay = document.getElementById("drop");

  button.addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    onFiles([...input.files]);
    input.value = ""; // so that the same file can be selected again
    field.focus();
  });

  field.addEventListener("paste", (event) => {
    const { files, types } = event.clipboardData;
    if (!files.length || types.includes("text/plain")) return; // office programs add an image of copied text; paste the text
    event.preventDefault();
    onFiles([...files].map(withUniqueName));
  });

  const hasFiles = ({ dataTransfer }) => dataTransfer?.types.includes("Files");
  addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault(); // otherwise the browser would navigate to the file
    event.dataTransfer.dropEffect = app.canWrite() ? "copy" : "none";
    dropOverlay.hidden = !app.canWrite();
  });
  addEventListener("dragleave", ({ relatedTarget }) => {
    if (!relatedTarget) dropOverlay.hidden = true;
  });
  addEventListener("drop", (event) => {
    dropOverlay.hidden = true;
    if (!hasFiles(event)) return;
    event.preventDefault();
    if (app.canWrite()) onFiles([...event.dataTransfer.files]);
  });
}

/** Pasted images are all named image.png; add a timestamp to tell them apart. */
function withUniqueName(file) {
  if (!/^image\.\w+$/.test(file.name)) return file;
  const time = new Date().toISOString().slice(0, 23).replace(/\D/g, "");
  return new File([file], file.name.replace(".", `-${time}.`), { type: file.type });
}
