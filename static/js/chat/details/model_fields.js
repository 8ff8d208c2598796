/** Agent, model and thinking level of the shown conversation, as fields. The list of models is asked for when it is needed. */

import { agentOf, isForeign } from "../sessions/row.js";
import { fill, reason } from "../../shared/texts.js";

export function startModelChoice(app) {
  const { gateway, words } = app;
  const at = (id) => document.getElementById(id);
  const [agent, model, thinking] = [at("agent"), at("model"), at("thinking-level")];
  let models = [];
  let asked = false;

  app.on("pane", ({ name, open }) => name === "details" && open && ask());
  app.on("connection", ({ name }) => {
    if (name !== "ready") return;
    asked = false; // another server may have others
    if (app.details.isOpen()) ask();
  });
  app.on("sessions", draw);
  app.on("agents", draw);
  app.on("session", draw);
  agent.addEventListener("change", () => {
    app.sessions.startNew(agent.value);
    draw();
  });
  model.addEventListener("change", () => patch({ model: model.value || null }, () => app.emit("selected-model", { model: model.value })));
  thinking.addEventListener("change", () => patch({ thinkingLevel: thinking.value || null }));

  async function ask() {
    if (asked || !gateway.ready) return;
    asked = true;
    try {
      ({ models } = await gateway.request("models.list"));
    } catch {
      asked = false; // opening the pane again asks again
    }
    draw();
    app.emit("models");
  }

  async function patch(changes, then = () => {}) {
    try {
      await gateway.request("sessions.patch", { key: app.sessions.shown().key, ...changes });
      then();
      app.sessions.refresh();
    } catch (error) {
      app.problem(fill(words.notDone, reason(words, error)));
      draw(true);
    }
  }

  /** What answers when the conversation chooses nothing: the agent's model, or the installation's. */
  function standard() {
    const own = app.sessions.agents.find(({ id }) => id === agentOf(app.sessions.shown()))?.model?.primary;
    const { modelProvider, model: name } = app.sessions.defaults();
    return own || (name ? `${modelProvider}/${name}` : "");
  }

  function draw(force = false) {
    if (!app.details.isOpen() || (force !== true && document.activeElement === model)) return;
    const row = app.sessions.shown();
    const { agents } = app.sessions;
    at("agent-help").hidden = agents.length < 2;
    agent.disabled = agents.length < 2;
    fit(agent, [{ options: agents.map(({ id, name }) => [id, name]) }]);
    agent.value = agentOf(row);
    fit(model, choices(row.model));
    model.value = row.model ?? "";
    thinking.value = row.thinkingLevel ?? "";
    at("thinking-help").hidden = chosen()?.reasoning !== false;
    model.disabled = thinking.disabled = !app.writable || isForeign(row.key); // its owner decides
  }

  function choices(current) {
    const usable = models.filter(({ available }) => available);
    const others = models.filter(({ available }) => !available);
    const providers = [...new Set(usable.map(({ provider }) => provider))];
    const first = [["", standard() ? fill(words.modelDefaultIs, standard()) : words.modelDefault]];
    if (current && !models.some(({ id }) => id === current)) first.push([current, current]);
    const groups = providers.map((provider) => ({
      label: provider,
      options: usable.filter((each) => each.provider === provider).map(({ id, name }) => [id, name]),
    }));
    if (others.length) groups.push({ label: words.modelNoKey, disabled: true, options: others.map(({ id }) => [id, id]) });
    return [{ options: first }, ...groups];
  }

  const find = (id) => models.find((each) => each.id === id);
  const chosen = () => find(app.sessions.shown().model || standard());
  return { find, chosen };
}

const drawn = new WeakMap(); // field → the choices it has

/** Fill a field with choices, unless it has just these: one that is open would close. */
function fit(select, groups) {
  const wanted = JSON.stringify(groups);
  if (drawn.get(select) === wanted) return;
  drawn.set(select, wanted);
  select.replaceChildren(...groups.flatMap(({ label, disabled, options }) => {
    const made = options.map(([value, text]) => new Option(text, value));
    if (!label) return made;
    const group = document.createElement("optgroup");
    group.label = label;
    group.disabled = Boolean(disabled);
    group.append(...made);
    return [group];
  }));
}
