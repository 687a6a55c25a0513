// What one key holds: the values of each state, per window where there are windows, and its timers.

import { copyButton, h } from "../core/dom.js";
import { bytes, count, duration, isTime, plural, time } from "../core/format.js";

export function keyValues(answer) {
  const head = h("p", { class: "quiet" }, `Key group ${count(answer.key_group)}, subtask ${count(answer.subtask)}, ${bytes(answer.bytes)}, after step ${count(answer.step)}`);
  const states = (answer.states ?? []).filter((one) => one.entries?.length).map(stateBox);
  return h("div", { class: "key-states" }, head, states, timers(answer));
}

function stateBox(state) {
  const about = [state.descriptor ?? state.kind, state.type, state.ttl_ms && `expires after ${duration(state.ttl_ms)}`].filter(Boolean).join(" · ");
  const entries = state.entries.map((entry) => {
    const text = entry.truncated ? String(entry.value) : JSON.stringify(entry.value, null, Array.isArray(entry.value) || typeof entry.value === "object" ? 1 : 0);
    const notes = [
      entry.window && windowText(entry.window),
      bytes(entry.bytes),
      entry.truncated && "only its beginning is shown",
      entry.expired ? "expired" : entry.expires_at && `expires ${time(entry.expires_at)}`,
    ].filter(Boolean);
    return h("div", { class: entry.expired ? "value expired" : "value" }, h("pre", { tabindex: 0 }, h("code", {}, text + (entry.truncated ? " …" : ""))), h("p", { class: "value-notes" }, notes.join(" · "), copyButton(text)));
  });
  const left = state.left_off ? h("p", { class: "quiet" }, `and ${plural(state.left_off, "further window")}`) : null;
  return h("article", { class: "key-state" }, h("h5", {}, state.name, h("span", { class: "quiet" }, ` ${about}`)), entries, left);
}

const moment = (at) => (isTime(at) && at > 1e11 ? time(at) : count(at));
const windowText = (one) => (one.start !== undefined ? `window ${moment(one.start)} to ${moment(one.end)}` : `window ${JSON.stringify(one)}`);

function timers(answer) {
  if (!answer.timers?.length) return h("p", { class: "quiet" }, "No timers.");
  const rows = answer.timers.map((one) => h("tr", {}, h("td", {}, `${one.domain} time`), h("td", { class: "number" }, moment(one.timestamp)), h("td", {}, one.window ? windowText(one.window) : "")));
  const left = answer.timers_left_off ? h("p", { class: "quiet" }, `and ${plural(answer.timers_left_off, "further timer")}`) : null;
  return h("article", { class: "key-state" }, h("h5", {}, "Timers"), h("table", { class: "table tight" }, h("tbody", {}, rows)), left);
}
