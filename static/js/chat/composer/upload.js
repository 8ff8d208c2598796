/** Uploads a file. Uses XMLHttpRequest because fetch does not report upload progress. */

/** A failed upload, with the server's message, if any, and whether a retry could help. */
export class UploadError extends Error {
  constructor(status, message = "") {
    super(message);
    this.status = status; // 0 without a response
    this.retryable = status === 0 || status === 408 || status === 429 || status >= 500;
  }
}

/**
 * @param {File} file @param {{url: string, token: string, onProgress: (fraction: number) => void}} options
 * @returns {{done: Promise<{id: string, name: string, mimeType: string, size: number}>, cancel: () => void}}
 *   `done` never settles if canceled
 */
export function upload(file, { url, token, onProgress }) {
  const request = new XMLHttpRequest();
  const done = new Promise((resolve, reject) => {
    request.upload.onprogress = ({ loaded, total }) => onProgress(total ? loaded / total : 0);
    request.onerror = request.ontimeout = () => reject(new UploadError(0));
    request.onload = () => {
      const response = parseJson(request.responseText);
      if (request.status < 300 && response?.id) resolve(response);
      else reject(new UploadError(request.status, getErrorMessage(response)));
    };
  });
  const body = new FormData();
  body.append("file", file, file.name);
  request.open("POST", url);
  request.setRequestHeader("X-CSRFToken", token);
  request.setRequestHeader("Accept", "application/json");
  request.send(body);
  return { done, cancel: () => request.abort() };
}

function parseJson(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null; // an HTML page of the web server or a proxy
  }
}

function getErrorMessage(response) {
  const message = response?.error?.message ?? response?.error ?? response?.message;
  return typeof message === "string" ? message : "";
}
