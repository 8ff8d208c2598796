/** The ways files come in: the button, the clipboard, and dropping them anywhere on the page. */

/** @param {{app: object, field: Element, onFiles: (files: File[]) => void}} options */
export function startFileSources({ app, field, onFiles }) {
  const input = document.getElementById("files");
  const button = document.getElementById("attach");
  const veil = document.getElementById("drop");

  button.addEventListener("click", () => input.click());
  input.addEventListener("change", () => {
    onFiles([...input.files]);
    input.value = ""; // so that the same file can be chosen again
    field.focus();
  });

  field.addEventListener("paste", (event) => {
    const { files, types } = event.clipboardData;
    if (!files.length || types.includes("text/plain")) return; // office programs put a picture beside the words: the words are meant
    event.preventDefault();
    onFiles([...files].map(named));
  });

  const carriesFiles = ({ dataTransfer }) => dataTransfer?.types.includes("Files");
  addEventListener("dragover", (event) => {
    if (!carriesFiles(event)) return;
    event.preventDefault(); // else the browser would leave the page and show the file
    event.dataTransfer.dropEffect = app.mayWrite() ? "copy" : "none";
    veil.hidden = !app.mayWrite();
  });
  addEventListener("dragleave", ({ relatedTarget }) => {
    if (!relatedTarget) veil.hidden = true;
  });
  addEventListener("drop", (event) => {
    veil.hidden = true;
    if (!carriesFiles(event)) return;
    event.preventDefault();
    if (app.mayWrite()) onFiles([...event.dataTransfer.files]);
  });
}

/** Pictures from the clipboard are all called image.png; a time tells them apart. */
function named(file) {
  if (!/^image\.\w+$/.test(file.name)) return file;
  const time = new Date().toISOString().slice(0, 23).replace(/\D/g, "");
  return new File([file], file.name.replace(".", `-${time}.`), { type: file.type });
}
