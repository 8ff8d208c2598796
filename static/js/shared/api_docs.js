/** Sends an operation of the REST API as the person who is signed in, and shows the answer as it came. */

const token = document.querySelector("#credential [name=csrfmiddlewaretoken]").value;

for (const form of document.querySelectorAll("form.try")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const [state, shown] = [form.querySelector(".answer-state"), form.querySelector(".answer")];
    const began = performance.now();
    const answer = await fetch(...requestOf(form)).catch(() => null);
    const text = answer ? await answer.text() : "";
    state.textContent = answer ? `${answer.status} ${answer.statusText} · ${Math.round(performance.now() - began)} ms` : "–";
    shown.textContent = pretty(text);
    state.hidden = false;
    shown.hidden = !text;
  });
}

function requestOf(form) {
  const headers = { "X-CSRFToken": token };
  let path = form.dataset.path;
  const query = new URLSearchParams();
  for (const field of form.querySelectorAll("input[data-in]")) {
    if (field.dataset.in === "path") path = path.replace(`{${field.name}}`, encodeURIComponent(field.value));
    else if (field.value && field.dataset.in === "header") headers[field.name] = field.value;
    else if (field.value) query.set(field.name, field.value);
  }
  const body = form.querySelector("[data-in=body]")?.value;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const address = query.size ? `${path}?${query}` : path;
  return [address, { method: form.dataset.method, headers, body, credentials: "same-origin" }];
}

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** A link to a shape opens it. */
function open() {
  const found = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (found instanceof HTMLDetailsElement) found.open = true;
}
addEventListener("hashchange", open);
open();
