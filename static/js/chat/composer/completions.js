/**
 * What can be completed in the composer: `/` commands and their choices, `@` a model for one message.
 *
 * Both count at the beginning of a message only, as they do on the server (commands.list, models.list).
 */

import { Suggestions } from "./suggestion_list.js";

const COMMAND = /^\/([a-z][\w-]*)(?::|(?=\s)|$)\s*(.*)/is; // after a blank it is a message
const ALSO_WISHES = ["model", "think"]; // with words behind their argument they are a message, answered that way
const MOST = 50; // suggestions at a time: who has more models types another letter

/** @param {{app: object, field: HTMLTextAreaElement, submit: () => void, onChange: () => void}} options */
export function startSlashMenu({ app, field, submit, onChange }) {
  const { gateway, words } = app;
  const list = new Suggestions({ app, field, onChoose: choose });
  const asked = new Map(); // method → promise of its answer, of this connection
  let commands = []; // as far as they are known
  let dismissed = false;

  /** A command is done by the server at once; it is no message to the agent. */
  app.isCommand = (message) => {
    const [, word, behind] = COMMAND.exec(message) ?? [];
    const command = word && commands.find((each) => namesOf(each).includes(word.toLowerCase()));
    return Boolean(command) && !(ALSO_WISHES.includes(command.name) && /\s/.test(behind.trim()));
  };

  app.on("connection", ({ name }) => name === "ready" && asked.clear());
  app.on("session", () => list.hide());
  app.on("command", suggest); // sent with the button, the command has left the field without a key
  field.addEventListener("input", suggest);
  field.addEventListener("click", suggest); // the caret may stand elsewhere now

  async function suggest() {
    const place = placeOf(field);
    if (!place) dismissed = false;
    if (!place || dismissed) return list.hide();
    const items = await found(place);
    // Typing went on while the server was asked: that key asks for itself.
    if (document.activeElement === field && JSON.stringify(placeOf(field)) === JSON.stringify(place)) list.show(items);
  }

  async function found({ kind, word, argument }) {
    if (kind === "model") return matching((await models()).map(modelItem), word);
    commands = (await ask("commands.list"))?.commands ?? commands;
    if (kind === "command") return matching(commands.map(commandItem), word);
    const command = commands.find((each) => namesOf(each).includes(word));
    const choices = command ? await choicesOf(command) : [];
    if (choices.some(({ name }) => name.toLowerCase() === argument)) return []; // it stands there: Enter sends
    return matching(choices, argument).map((item) => ({ ...item, text: `/${command.name} ${item.name}`, runs: true }));
  }

  async function choicesOf({ name, args }) {
    const choices = args?.[0]?.choices;
    if (choices?.length) return choices.map(({ value }) => ({ name: value }));
    if (name !== "model") return [];
    return [{ name: "default", help: words.agentsModel }, ...(await models()).map(modelItem)];
  }

  async function models() {
    const rows = (await ask("models.list"))?.models ?? [];
    return rows.sort((one, other) => other.available - one.available);
  }

  /** Once a connection: what can be chosen may have changed with the server. */
  function ask(method) {
    if (!asked.has(method)) asked.set(method, gateway.request(method).catch(() => asked.delete(method) && null));
    return asked.get(method);
  }

  function modelItem({ id, name, available }) {
    const help = [name === id ? "" : name, available ? "" : words.noKey].filter(Boolean).join(" · ");
    return { name: id, text: `@${id} `, help, disabled: !available };
  }

  function choose({ text, runs }, how) {
    field.setRangeText(text, 0, endOfPlace(field), "end");
    onChange();
    if (runs && how === "enter") submit();
    else suggest();
  }

  return {
    /** True when the key was meant for the list. */
    take(event) {
      const taken = list.take(event);
      if (taken && event.key === "Escape") dismissed = true;
      return taken;
    },
  };
}

/** Where the caret stands: in the command, in its argument, in a model's name, or in none of these. */
function placeOf({ value, selectionStart, selectionEnd }) {
  const head = value.slice(0, selectionStart);
  if (selectionStart !== selectionEnd || /^\S/.test(value.slice(selectionStart))) return null;
  const [, sign, word, argument] = /^([/@])(\S*)(?:[^\S\n]+(\S*))?$/.exec(head) ?? [];
  if (!sign) return null;
  if (sign === "@") return argument === undefined ? { kind: "model", word: word.toLowerCase() } : null;
  if (argument === undefined) return { kind: "command", word: word.toLowerCase() };
  return { kind: "choice", word: word.toLowerCase(), argument: argument.toLowerCase() };
}

/** What a suggestion replaces ends at the caret, with the space after it if the suggestion brings its own. */
function endOfPlace({ value, selectionStart }) {
  return value[selectionStart] === " " ? selectionStart + 1 : selectionStart;
}

function commandItem({ name, args, description, textAliases = [] }) {
  const usage = args?.[0]?.description ?? "";
  const runs = !usage || usage.startsWith("["); // as it is: what may follow is left to choice
  const text = usage ? `/${name} ` : `/${name}`;
  return { name: `/${name}`, also: textAliases, arguments: usage, help: description, text, runs };
}

function namesOf({ name, textAliases = [] }) {
  return [name, ...textAliases.map((alias) => alias.slice(1))];
}

/** Those that begin with what was typed come before those that only hold it. */
function matching(items, typed) {
  const names = ({ name, also = [] }) => [name, ...also].map((each) => each.replace(/^\//, "").toLowerCase());
  const begins = items.filter((item) => names(item).some((name) => name.startsWith(typed)));
  const holds = items.filter((item) => !begins.includes(item) && names(item).some((name) => name.includes(typed)));
  return [...begins, ...holds].slice(0, MOST);
}
