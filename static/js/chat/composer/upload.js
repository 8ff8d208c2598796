/** One file on its way to the server. XMLHttpRequest, because fetch does not tell how much of it has been sent. */

/** Why an upload failed: the server's words if it had any, and whether another try could help. */
export class UploadFailed extends Error {
  constructor(status, message = "") {
    super(message);
    this.status = status; // 0 when there was no answer
    this.retryable = status === 0 || status === 408 || status === 429 || status >= 500;
  }
}

/**
 * @param {File} file @param {{url: string, token: string, onProgress: (share: number) => void}} options
 * @returns {{done: Promise<{id: string, name: string, mimeType: string, size: number}>, cancel: () => void}} what was cancelled never ends
 */
export function upload(file, { url, token, onProgress }) {
  const request = new XMLHttpRequest();
  const done = new Promise((resolve, reject) => {
    request.upload.onprogress = ({ loaded, total }) => onProgress(total ? loaded / total : 0);
    request.onerror = request.ontimeout = () => reject(new UploadFailed(0));
    request.onload = () => {
      const answer = parsed(request.responseText);
      if (request.status < 300 && answer?.id) resolve(answer);
      else reject(new UploadFailed(request.status, told(answer)));
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

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null; // a page of the web server or of a proxy before it
  }
}

function told(answer) {
  const message = answer?.error?.message ?? answer?.error ?? answer?.message;
  return typeof message === "string" ? message : "";
}
