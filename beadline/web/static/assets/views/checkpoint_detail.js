// One checkpoint, opened: its path and fate, then operators, and on request the subtasks of one.

import { get } from "../core/api.js";
import { copyButton, h, replace } from "../core/dom.js";
import { NONE, bytes, count, duration, fullTime, time } from "../core/format.js";
import { PagedTable, facts, trouble } from "../core/shell.js";

const TYPES = { CHECKPOINT: "aligned", UNALIGNED_CHECKPOINT: "unaligned", SAVEPOINT: "savepoint", SYNC_SAVEPOINT: "savepoint on stop" };

export const typeText = (one) => TYPES[one.checkpoint_type] ?? (one.is_savepoint ? "savepoint" : (one.checkpoint_type ?? NONE).toLowerCase());

/** An element that fills itself. */
export function checkpointDetail(job, id) {
  const element = h("div", { class: "detail" }, h("p", { class: "quiet" }, "Asking…"));
  Promise.all([get(`${job.path}/checkpoints/details/${id}`), get(`${job.path}/beadline/vertices`).catch(() => ({ vertices: [] }))])
    .then(([one, { vertices }]) => replace(element, about(one), operators(job, one, new Map(vertices.map((vertex) => [vertex.id, vertex.name])))))
    .catch((error) => replace(element, trouble(error)));
  return element;
}

function about(one) {
  return facts([
    ["Type", `${typeText(one)}${one.savepointFormat ? `, ${one.savepointFormat.toLowerCase()} format` : ""}`],
    ["Triggered", fullTime(one.trigger_timestamp)],
    one.latest_ack_timestamp > 0 && ["Latest acknowledgement", fullTime(one.latest_ack_timestamp)],
    one.external_path && ["Path", h("span", { class: "with-button" }, h("code", { class: "path", title: one.external_path }, h("bdi", {}, one.external_path)), copyButton(one.external_path))],
    one.failure_message && ["Failure", h("span", { class: "bad-text" }, one.failure_message)],
    ["Discarded", one.discarded ? "yes: newer ones have replaced it" : "no"],
  ]);
}

function operators(job, one, names) {
  const tasks = Object.entries(one.tasks ?? {}).map(([id, task]) => ({ ...task, id, name: names.get(id) ?? id }));
  tasks.sort((a, b) => (b.state_size ?? 0) - (a.state_size ?? 0));
  if (!tasks.length) return h("p", { class: "quiet" }, "No operator has told of this checkpoint.");
  const opened = new Map();
  const columns = [{ name: "Operator" }, ...["Acknowledged", "Latest", "Duration", "Written", "Full size"].map((name) => ({ name, class: "number" }))];
  const table = new PagedTable({ label: `Operators in checkpoint ${one.id}`, columns, row, size: 15 });
  function row(task) {
    const open = opened.has(task.id);
    const name = h("button", { class: "link opener", type: "button", "aria-expanded": String(open), "data-operator": task.id, title: task.name, on: { click: () => toggle(task.id) } }, task.name);
    const cells = [`${count(task.num_acknowledged_subtasks)}/${count(task.num_subtasks)}`, time(task.latest_ack_timestamp), duration(task.end_to_end_duration), bytes(task.checkpointed_size), bytes(task.state_size)];
    const main = h("tr", {}, h("th", { scope: "row", class: "name" }, name), cells.map((text) => h("td", { class: "number" }, text)));
    return open ? [main, opened.get(task.id)] : main;
  }
  function toggle(id) {
    if (opened.has(id)) opened.delete(id);
    else opened.set(id, h("tr", { class: "detail-row" }, h("td", { colspan: columns.length }, subtasks(job, one.id, id))));
    table.draw();
    table.body.querySelector(`[data-operator="${CSS.escape(id)}"]`)?.focus();
  }
  table.show(tasks);
  return table.element;
}

function subtasks(job, checkpoint, vertex) {
  const element = h("div", { class: "detail" }, h("p", { class: "quiet" }, "Asking…"));
  get(`${job.path}/checkpoints/details/${checkpoint}/subtasks/${vertex}`)
    .then((answer) => replace(element, spread(answer.summary), subtaskTable(answer.subtasks ?? [])))
    .catch((error) => replace(element, trouble(error)));
  return element;
}

function spread(summary) {
  if (!summary) return null;
  const range = (one, format) => (one ? `${format(one.min)} · ${format(one.avg)} · ${format(one.max)}` : NONE);
  return h("p", { class: "quiet" }, `Least · average · most: duration ${range(summary.end_to_end_duration, duration)}; size ${range(summary.state_size, bytes)}`);
}

function subtaskTable(all) {
  const columns = [{ name: "Subtask" }, ...["Acknowledged", "Duration", "Written", "Full size", "Sync", "Async", "Alignment", "Start delay"].map((name) => ({ name, class: "number" }))];
  const row = (one) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, one.index),
      [time(one.ack_timestamp), duration(one.end_to_end_duration), bytes(one.checkpointed_size), bytes(one.state_size), duration(one.checkpoint?.sync), duration(one.checkpoint?.async), duration(one.alignment?.duration), duration(one.start_delay)].map((text) => h("td", { class: "number" }, text)),
    );
  const table = new PagedTable({ label: "Subtasks", columns, row, size: 16 });
  table.show(all);
  return table.element;
}
