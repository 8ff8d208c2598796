/** Calls an operation of the REST API as the signed-in user and shows the response. */

const token = document.querySelector("#credential [name=csrfmiddlewaretoken]").value;

for (const form of document.querySelectorAll("form.try")) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const [state, output] = [form.querySelector(".answer-state"), form.querySelector(".answer")];
    const startedAt = performance.now();
    const response = await fetch(...buildRequest(form)).catch(() => null);
    const text = response ? await response.text() : "";
    state.textContent = response
      ? `${response.status} ${response.statusText} · ${Math.round(performance.now() - startedAt)} ms`
      : "–";
    output.textContent = formatJson(text);
    state.hidden = false;
    output.hidden = !text;
  });
}

function buildRequest(form) {
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
  const url = query.size ? `${path}?${query}` : path;
  return [url, { method: form.dataset.method, headers, body, credentials: "same-origin" }];
}

function formatJson(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** Open the schema a link points to. */
function openLinkedSchema() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) target.open = true;
}
addEventListener("hashchange", openLinkedSchema);
openLinkedSchema();
