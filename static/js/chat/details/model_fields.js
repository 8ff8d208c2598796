/** Agent, model and thinking level of the current session. Models are loaded when the pane is first opened. */

import { describeError, fill } from "../../shared/texts.js";
import { getAgentId, isSharedWithMe } from "../sessions/row.js";

export function startModelFields(app) {
  const { gateway, texts } = app;
  const byId = (id) => document.getElementById(id);
  const [agent, model, thinking] = [byId("agent"), byId("model"), byId("thinking-level")];
  let models = [];
  let requested = false;

  app.on("pane", ({ name, open }) => name === "details" && open && loadModels());
  app.on("connection", ({ name }) => {
    if (name !== "ready") return;
    requested = false; // a restarted server may offer other models
    if (app.details.isOpen()) loadModels();
  });
  app.on("sessions", render);
  app.on("agents", render);
  app.on("session", render);
  agent.addEventListener("change", () => {
    app.sessions.startNew(agent.value);
    render();
  });
  model.addEventListener("change", () => {
    patch({ model: model.value || null }, () => app.emit("selected-model", { model: model.value }));
  });
  thinking.addEventListener("change", () => patch({ thinkingLevel: thinking.value || null }));

  async function loadModels() {
    if (requested || !gateway.ready) return;
    requested = true;
    try {
      ({ models } = await gateway.request("models.list"));
    } catch {
      requested = false; // opening the pane retries
    }
    render();
    app.emit("models");
  }

  async function patch(changes, onSuccess = () => {}) {
    try {
      await gateway.request("sessions.patch", { key: app.sessions.getCurrent().key, ...changes });
      onSuccess();
      app.sessions.refresh();
    } catch (error) {
      app.showProblem(fill(texts.notDone, describeError(error, texts)));
      render(true);
    }
  }

  /** The model used if the session sets none: the agent's, or the server default. */
  function getDefaultModel() {
    const agentModel = app.sessions.agents.find(({ id }) => id === getAgentId(app.sessions.getCurrent()))?.model?.primary;
    const { modelProvider, model: name } = app.sessions.defaults();
    return agentModel || (name ? `${modelProvider}/${name}` : "");
  }

  function render(force = false) {
    if (!app.details.isOpen() || (force !== true && document.activeElement === model)) return;
    const row = app.sessions.getCurrent();
    const { agents } = app.sessions;
    byId("agent-help").hidden = agents.length < 2;
    agent.disabled = agents.length < 2;
    fillSelect(agent, [{ options: agents.map(({ id, name }) => [id, name]) }]);
    agent.value = getAgentId(row);
    fillSelect(model, buildGroups(row.model));
    model.value = row.model ?? "";
    thinking.value = row.thinkingLevel ?? "";
    byId("thinking-help").hidden = getSelected()?.reasoning !== false;
    model.disabled = thinking.disabled = !app.writable || isSharedWithMe(row.key); // only the owner can change them
  }

  function buildGroups(current) {
    const availableModels = models.filter(({ available }) => available);
    const unavailableModels = models.filter(({ available }) => !available);
    const providers = [...new Set(availableModels.map(({ provider }) => provider))];
    const defaults = [["", getDefaultModel() ? fill(texts.modelDefaultIs, getDefaultModel()) : texts.modelDefault]];
    if (current && !models.some(({ id }) => id === current)) defaults.push([current, current]);
    const groups = providers.map((provider) => ({
      label: provider,
      options: availableModels.filter((candidate) => candidate.provider === provider).map(({ id, name }) => [id, name]),
    }));
    if (unavailableModels.length) {
      groups.push({ label: texts.modelNoKey, disabled: true, options: unavailableModels.map(({ id }) => [id, id]) });
    }
    return [{ options: defaults }, ...groups];
  }

  const find = (id) => models.find((candidate) => candidate.id === id);
  const getSelected = () => find(app.sessions.getCurrent().model || getDefaultModel());
  return { find, getSelected };
}

const renderedChoices = new WeakMap(); // field → its current choices

/** Set the choices of a field if they changed. Replacing them would close an open dropdown. */
function fillSelect(select, groups) {
  const serialized = JSON.stringify(groups);
  if (renderedChoices.get(select) === serialized) return;
  renderedChoices.set(select, serialized);
  select.replaceChildren(...groups.flatMap(({ label, disabled, options }) => {
    const createdOptions = options.map(([value, text]) => new Option(text, value));
    if (!label) return createdOptions;
    const group = document.createElement("optgroup");
    group.label = label;
    group.disabled = Boolean(disabled);
    group.append(...createdOptions);
    return [group];
  }));
}
