// The state browser: what each operator keeps, how it is spread, and what one key holds.

import { ApiError, Away, get } from "../core/api.js";
import { card, empty, h, replace, say } from "../core/dom.js";
import { NONE, bytes, count, duration, plural, short } from "../core/format.js";
import { facts, trouble } from "../core/shell.js";
import { keyValues } from "./state_key.js";
import { groupBars, subtaskBars } from "../drawing/bars.js";

export function state(root, job) {
  const list = h("div", { class: "state-operators", role: "group", "aria-label": "Operators with state" });
  const right = h("div", { class: "stack" });
  const box = card("State");
  const layout = h("div", { class: "state-layout" }, list, right);
  let operators = [];
  let chosen = null;
  let open = null;
  let watching = null;

  const choose = (uid, again = false) => {
    chosen = uid;
    for (const button of list.children) button.setAttribute("aria-pressed", String(button.dataset.uid === uid));
    const one = operators.find((operator) => operator.uid === uid);
    if (!again || !open) {
      open = operatorView(job, one);
      replace(right, open.element);
    }
    open.show(one);
  };

  const refresh = h("button", { class: "button small", type: "button", on: { click: () => job.feed.askAgain() } }, "Refresh");
  replace(box.tools, refresh);
  replace(root, box.section);
  replace(box.body, h("p", { class: "quiet" }, "Asking…"));
  let stop = () => {};
  const watch = () => job.feed.watch(`${job.path}/beadline/state`, {
    every: 10000,
    onError: (error) => {
      open = null;
      replace(box.body, noState(job, error));
    },
    onData: (answer) => {
      operators = (answer.operators ?? []).filter((one) => one.states?.length || one.bytes);
      box.note.textContent = `after step ${count(answer.step)}, ${bytes(answer.bytes)} in all`;
      if (!operators.length) return replace(box.body, empty("No state", "None of the job's operators keeps state, or no step has been sealed yet."));
      if (!box.body.contains(layout)) replace(box.body, layout);
      fillList(list, operators, choose);
      const known = operators.some((one) => one.uid === chosen);
      choose(known ? chosen : operators.reduce((a, b) => (b.bytes > a.bytes ? b : a)).uid, known);
    },
  });
  // An ended job has no state here: it is not even asked for.
  const unlisten = job.onSummary(() => {
    if (job.live === watching) return;
    watching = job.live;
    stop();
    if (watching) stop = watch();
    else replace(box.body, noState(job, null));
  });
  return () => {
    stop();
    unlisten();
  };
}

function noState(job, error) {
  if (!job.live) return empty("The state is not here any more", "The job has ended. Its checkpoints and savepoints can be read with “beadline state” and the state processor.");
  if (error.status === 404) return empty("State can't be browsed here", error.message);
  if (error.status === 503) return empty("Not just now", `${error.message} The page asks again by itself.`);
  return trouble(error);
}

/** Buttons stay the same elements while numbers change, so that the focus stays too. */
function fillList(list, operators, choose) {
  const most = Math.max(1, ...operators.map((one) => one.bytes));
  const known = new Map([...list.children].map((button) => [button.dataset.uid, button]));
  replace(
    list,
    operators.map((one) => {
      const button = known.get(one.uid) ?? h("button", { class: "state-operator", type: "button", "data-uid": one.uid, title: `${one.name} (${one.uid})`, on: { click: () => choose(one.uid) } }, h("span", { class: "state-name" }, one.name), h("span", { class: "state-size" }), h("span", { class: "bar" }, h("span", { class: "bar-fill" })));
      say(button.querySelector(".state-size"), `${bytes(one.bytes)}${one.keys != null ? ` · ${short(one.keys)} keys` : ""}`);
      button.querySelector(".bar-fill").style.setProperty("transform", `scaleX(${one.bytes / most})`);
      return button;
    }),
  );
}

// -- one operator

function operatorView(job, operator) {
  const about = h("div");
  const states = h("div");
  const spread = h("div", { class: "spread" });
  const lookup = operator.keyed ? lookUp(job, operator) : null;
  const element = h("div", { class: "stack" }, h("h3", { class: "state-title" }, operator.name), about, states, spread, lookup?.element, lookup && largest(job, operator, lookup.find));
  return {
    element,
    show(one) {
      replace(about, aboutOperator(one));
      replace(states, stateTable(one));
      replace(spread, subtaskBars(one), groupBars(one));
    },
  };
}

function aboutOperator(one) {
  const about = one.exact === false ? "at most " : "";
  return facts([
    ["Uid", h("code", {}, one.generated_uid ? `${one.uid.slice(0, 12)}… (generated)` : one.uid)],
    one.keyed && ["Key type", one.key_type ?? "not declared"],
    one.keys != null && ["Keys", count(one.keys)],
    ["Entries", about + count(one.entries)],
    ["Size", bytes(one.bytes)],
    ["Parallelism", one.keyed ? `${one.parallelism} of at most ${one.max_parallelism}` : count(one.parallelism)],
  ]);
}

const stateName = (one) => (one.kind === "timer" ? one.name.replace(/^_/, "").replaceAll("-", " ") : one.name);

function stateTable(one) {
  const kind = (state) => (state.kind === "timer" ? "timers" : state.descriptor ?? `${state.scope === "operator" ? "operator " : ""}${state.kind}`);
  const type = (state) => [state.map_key_type && `${state.map_key_type} →`, state.type, state.windowed && "per window"].filter(Boolean).join(" ") + (state.ttl_ms ? `, expires after ${duration(state.ttl_ms)}` : "") || NONE;
  const rows = one.states.map((state) => h("tr", {}, h("th", { scope: "row", class: "name" }, stateName(state)), h("td", {}, kind(state)), h("td", {}, type(state)), h("td", { class: "number" }, count(state.entries)), h("td", { class: "number" }, bytes(state.bytes))));
  const head = ["State", "Kind", "Type"].map((name) => h("th", { scope: "col" }, name)).concat(["Entries", "Size"].map((name) => h("th", { scope: "col", class: "number" }, name)));
  return h("div", { class: "table-scroll", tabindex: 0, role: "region", "aria-label": "States" }, h("table", { class: "table" }, h("caption", { class: "off-screen" }, "States"), h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)));
}

// -- a key's values

function lookUp(job, operator) {
  const input = h("input", { class: "input mono", type: "search", name: "key", placeholder: hint(operator.key_type), "aria-label": "Key", autocomplete: "off", spellcheck: "false" });
  const result = h("div", { class: "key-result", "aria-live": "polite" });
  const form = h("form", { class: "key-form" }, input, h("button", { class: "button primary", type: "submit" }, "Look up"));
  const find = async (text) => {
    replace(result, h("p", { class: "quiet" }, "Asking…"));
    try {
      const answer = await get(`${job.path}/beadline/state/key?operator=${encodeURIComponent(operator.uid)}&key=${encodeURIComponent(text)}`);
      replace(result, answer.found ? keyValues(answer) : empty("This key has no state", `Key ${JSON.stringify(answer.key)} belongs to key group ${answer.key_group}, subtask ${answer.subtask}.`));
    } catch (error) {
      if (!(error instanceof ApiError || error instanceof Away)) throw error;
      replace(result, trouble(error));
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (input.value !== "") find(input.value);
  });
  const element = h("section", { class: "sub-section", "aria-label": "A key" }, h("h4", {}, "A key's values and timers"), form, result);
  return {
    element,
    find: (text) => {
      input.value = text;
      find(text);
      element.scrollIntoView({ block: "nearest" });
    },
  };
}

const hint = (type) => (/INT|LONG|SHORT|BYTE/i.test(type ?? "") ? "42" : /TUPLE|ROW|LIST/i.test(type ?? "") ? '["ann", 7]' : "a key, as text or JSON");

const keyText = (key) => (typeof key === "string" ? key : JSON.stringify(key));

// -- the largest keys

function largest(job, operator, find) {
  const result = h("div");
  const button = h("button", { class: "button", type: "button", on: { click: ask } }, "Find the largest keys");
  async function ask() {
    replace(result, h("p", { class: "quiet" }, "Reading the state…"));
    try {
      const answer = await get(`${job.path}/beadline/state/largest?operator=${encodeURIComponent(operator.uid)}&n=20`);
      replace(result, ...[largestTable(answer, find)].flat());
      say(button, "Look again");
    } catch (error) {
      if (!(error instanceof ApiError || error instanceof Away)) throw error;
      replace(result, trouble(error));
    }
  }
  return h("section", { class: "sub-section", "aria-label": "Largest keys" }, h("h4", {}, "Largest keys"), button, result);
}

function largestTable(answer, find) {
  const most = Math.max(1, ...answer.keys.map((one) => one.bytes));
  const row = (one) => {
    const bar = h("span", { class: "bar-fill" });
    bar.style.setProperty("transform", `scaleX(${one.bytes / most})`);
    const text = keyText(one.key);
    return h(
      "tr",
      {},
      h("th", { scope: "row", class: "name" }, h("button", { class: "link mono", type: "button", title: text, on: { click: () => find(text) } }, text)),
      h("td", { class: "bar-cell" }, h("span", { class: "bar" }, bar)),
      h("td", { class: "number" }, bytes(one.bytes)),
      h("td", { class: "number" }, count(one.entries)),
      h("td", { class: "number" }, count(one.subtask)),
      h("td", { class: "number" }, count(one.key_group)),
    );
  };
  const said = answer.complete ? `Of ${plural(answer.keys_seen, "key")}, ${bytes(answer.bytes_seen)}, read in ${duration(answer.seconds * 1000)}.` : answer.note ?? "Not all keys were read.";
  const names = ["Key", "Share", "Size", "Entries", "Subtask", "Key group"];
  const head = h("tr", {}, names.map((name, index) => h("th", { scope: "col", class: index > 1 ? "number" : null }, name)));
  if (!answer.keys.length) return h("p", { class: "quiet" }, "No key has state.");
  return [h("p", { class: "quiet" }, said), h("div", { class: "table-scroll", tabindex: 0, role: "region", "aria-label": "Largest keys" }, h("table", { class: "table" }, h("thead", {}, head), h("tbody", {}, answer.keys.map(row))))];
}
