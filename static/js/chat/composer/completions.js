/**
 * Completions in the composer: `/` for commands and their arguments, `@` for the model of one message.
 *
 * Both only apply at the start of a message, as on the server (commands.list, models.list).
 */

import { SuggestionList } from "./suggestion_list.js";

const COMMAND = /^\/([a-z][\w-]*)(?::|(?=\s)|$)\s*(.*)/is; // text with a leading space is a message
const MESSAGE_COMMANDS = ["model", "think"]; // with text after the argument, these are messages that use the setting
const MAX_RESULTS = 50; // users narrow down longer lists by typing

/** @param {{app: object, field: HTMLTextAreaElement, submit: () => void, onChange: () => void}} options */
export function startCompletions({ app, field, submit, onChange }) {
  const { gateway, texts } = app;
  const list = new SuggestionList({ app, field, onChoose: choose });
  const responses = new Map(); // method → promise of its response, per connection
  let commands = []; // known so far
  let dismissed = false;

  /** Commands are executed by the server immediately and not sent to the agent. */
  app.isCommand = (message) => {
    const [, word, rest] = COMMAND.exec(message) ?? [];
    const command = word && commands.find((candidate) => getNames(candidate).includes(word.toLowerCase()));
    return Boolean(command) && !(MESSAGE_COMMANDS.includes(command.name) && /\s/.test(rest.trim()));
  };

  app.on("connection", ({ name }) => name === "ready" && responses.clear());
  app.on("session", () => list.hide());
  app.on("command", suggest); // the send button clears the field without an input event
  field.addEventListener("input", suggest);
  field.addEventListener("click", suggest); // the caret may have moved

  async function suggest() {
    const context = findContext(field);
    if (!context) dismissed = false;
    if (!context || dismissed) return list.hide();
    const items = await findItems(context);
    // Ignore the response if the user kept typing: the newer input has triggered another request.
    if (document.activeElement === field && JSON.stringify(findContext(field)) === JSON.stringify(context)) list.show(items);
  }

  async function findItems({ kind, word, argument }) {
    if (kind === "model") return filterItems((await listModels()).map(toModelItem), word);
    commands = (await fetchOnce("commands.list"))?.commands ?? commands;
    if (kind === "command") return filterItems(commands.map(toCommandItem), word);
    const command = commands.find((candidate) => getNames(candidate).includes(word));
    const choices = command ? await listChoices(command) : [];
    if (choices.some(({ name }) => name.toLowerCase() === argument)) return []; // already complete: Enter sends it
    return filterItems(choices, argument).map((item) => ({ ...item, text: `/${command.name} ${item.name}`, runs: true }));
  }

  async function listChoices({ name, args }) {
    const choices = args?.[0]?.choices;
    if (choices?.length) return choices.map(({ value }) => ({ name: value }));
    if (name !== "model") return [];
    return [{ name: "default", help: texts.agentsModel }, ...(await listModels()).map(toModelItem)];
  }

  async function listModels() {
    const rows = (await fetchOnce("models.list"))?.models ?? [];
    return rows.sort((a, b) => b.available - a.available);
  }

  /** Request once per connection: a restarted server may offer other choices. */
  function fetchOnce(method) {
    if (!responses.has(method)) responses.set(method, gateway.request(method).catch(() => responses.delete(method) && null));
    return responses.get(method);
  }

  function toModelItem({ id, name, available }) {
    const help = [name === id ? "" : name, available ? "" : texts.noKey].filter(Boolean).join(" · ");
    return { name: id, text: `@${id} `, help, disabled: !available };
  }

  function choose({ text, runs }, trigger) {
    field.setRangeText(text, 0, findReplaceEnd(field), "end");
    onChange();
    if (runs && trigger === "enter") submit();
    else suggest();
  }

  return {
    /** Returns whether the list handled the key. */
    handleKey(event) {
      const handled = list.handleKey(event);
      if (handled && event.key === "Escape") dismissed = true;
      return handled;
    },
  };
}

/** Find what can be completed at the caret: a command, its argument or a model name. Returns null if nothing can. */
function findContext({ value, selectionStart, selectionEnd }) {
  const beforeCaret = value.slice(0, selectionStart);
  if (selectionStart !== selectionEnd || /^\S/.test(value.slice(selectionStart))) return null;
  const [, prefix, word, argument] = /^([/@])(\S*)(?:[^\S\n]+(\S*))?$/.exec(beforeCaret) ?? [];
  if (!prefix) return null;
  if (prefix === "@") return argument === undefined ? { kind: "model", word: word.toLowerCase() } : null;
  if (argument === undefined) return { kind: "command", word: word.toLowerCase() };
  return { kind: "choice", word: word.toLowerCase(), argument: argument.toLowerCase() };
}

/** The end of the replaced text: the caret, or one more if a space follows, because suggestions end with one. */
function findReplaceEnd({ value, selectionStart }) {
  return value[selectionStart] === " " ? selectionStart + 1 : selectionStart;
}

function toCommandItem({ name, args, description, textAliases = [] }) {
  const usage = args?.[0]?.description ?? "";
  const runs = !usage || usage.startsWith("["); // the command can run as is, because its arguments are optional
  const text = usage ? `/${name} ` : `/${name}`;
  return { name: `/${name}`, aliases: textAliases, arguments: usage, help: description, text, runs };
}

function getNames({ name, textAliases = [] }) {
  return [name, ...textAliases.map((alias) => alias.slice(1))];
}

/** Prefix matches first, then other matches. */
function filterItems(items, query) {
  const getSearchNames = ({ name, aliases = [] }) => [name, ...aliases].map((alias) => alias.replace(/^\//, "").toLowerCase());
  const prefixMatches = items.filter((item) => getSearchNames(item).some((name) => name.startsWith(query)));
  const substringMatches = items.filter((item) => getSearchNames(item).some((name) => name.includes(query)));
  const otherMatches = substringMatches.filter((item) => !prefixMatches.includes(item));
  return [...prefixMatches, ...otherMatches].slice(0, MAX_RESULTS);
}
