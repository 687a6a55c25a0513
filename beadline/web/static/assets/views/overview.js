// The job at a glance: headline numbers, the bead line, the graph, and all operators as a table.

import { card, copyButton, empty, h, replace } from "../core/dom.js";
import { NONE, ago, bytes, count, isTime, percent, plural, rate, short, tail, watermark } from "../core/format.js";
import { PagedTable, choice, facts, tile } from "../core/shell.js";
import { BeadLine, legend } from "../drawing/beads.js";
import { Sparkline } from "../drawing/charts.js";
import { Graph } from "../drawing/graph.js";

export function overview(root, job) {
  const numbers = headline(job);
  const beads = card("Steps");
  const line = new BeadLine();
  replace(beads.tools, legend("step", "again", "checkpoint", "savepoint", "failure"));
  replace(beads.body, line.element);
  const graph = graphCard();
  const table = operatorTable((id) => graph.select(id));
  replace(root, numbers.element, beads.section, graph.section, table.section);

  const stops = [
    job.feed.watch(`${job.path}/beadline/vertices`, {
      every: job.live ? 2000 : Infinity,
      on: ["ExecutionStarted", "StatusChanged"],
      onError: graph.fail,
      onData: ({ vertices }) => {
        const edges = edgesOf(vertices);
        // Of a job whose driver was killed only the operators are known, from its last checkpoint.
        graph.section.hidden = !job.live && vertices.length > 1 && !edges.length;
        graph.show(vertices, edges);
        table.show(vertices);
      },
    }),
    job.onSummary(numbers.show),
    job.onStory((story) => {
      line.show(story);
      numbers.seed(story);
    }),
  ];
  return () => stops.forEach((stop) => stop());
}

const edgesOf = (vertices) => vertices.flatMap((vertex) => (vertex.inputs ?? []).map((input) => ({ from: input.source, to: vertex.id, ship: input.ship_strategy, tag: input.tag })));

function headline(job) {
  const spark = new Sparkline("Records per second, the newest minutes");
  const tiles = {
    rate: tile("Records per second", spark.element),
    records: tile("Records read"),
    lag: tile("Waiting at sources"),
    watermark: tile("Watermark"),
    state: tile("Keys and state"),
    checkpoint: tile("Last checkpoint"),
    restarts: tile("Restarts"),
  };
  tiles.rate.element.classList.add("wide");
  const element = h("section", { class: "tiles", "aria-label": "Headline numbers" }, Object.values(tiles).map((one) => one.element));
  let seeded = false;
  return {
    element,
    seed(story) {
      if (seeded || story.steps.length < 2) return;
      seeded = true;
      spark.begin(ratesOf(story.steps));
    },
    show(job_) {
      const last = job_.last_checkpoint;
      tiles.rate.show(short(job_.records_per_second), job_.step ? `step ${count(job_.step)}` : "no step yet");
      if (job.live) spark.add(job_.records_per_second ?? 0);
      tiles.records.show(short(job_.records), job_.records >= 1000 ? count(job_.records) : "");
      tiles.lag.show(job_.lag == null ? NONE : short(job_.lag), job_.lag == null ? "sources don't say" : job_.lag ? "records to read" : "caught up");
      tiles.watermark.show(...watermarkText(job_));
      tiles.state.show(short(job_.keys), bytes(job_.state_bytes));
      tiles.checkpoint.show(...checkpointText(job_, last));
      tiles.restarts.show(count(job_.restarts ?? 0), job_.rerun_steps ? plural(job_.rerun_steps, "step run again", "steps run again") : "no step run again");
      tiles.restarts.element.classList.toggle("attention", job_.restarts > 0);
    },
  };
}

/** Records per second in the newest stretches of two seconds, by the steps that ended in each. */
function ratesOf(steps) {
  const length = 2000;
  const end = steps.at(-1).at;
  const rates = new Array(Math.min(90, Math.ceil((end - steps[0].at) / length))).fill(0);
  for (const step of steps) {
    const at = rates.length - 1 - Math.floor((end - step.at) / length);
    if (at >= 0) rates[at] += step.records / (length / 1000);
  }
  // A step that ends just after a stretch would count for the next one only: each is averaged with its neighbours.
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  return rates.map((_, index) => mean(rates.slice(Math.max(0, index - 1), index + 2)));
}

/** Of today: the time and how long ago. Of another day: the time and the date. */
function watermarkText({ watermark: at, now }) {
  const text = watermark(at);
  const [, day, clock] = /^(\S+) (\d\d:\d\d:\d\d)$/.exec(text) ?? [];
  if (day) return [clock, day];
  return [text, isTime(at) && now - at < 86400000 && now > at ? ago(at, now) : "event time"];
}

function checkpointText(summary, last) {
  if (!last) return ["none yet", ""];
  if (typeof last === "string") return [/chk-(\d+)/.exec(last)?.[1] ?? "done", tail(last, 30), last];
  const at = last.ended_at ?? last.latest_ack_timestamp ?? last.triggered_at;
  return [`#${last.id}`, [ago(at, summary.now), bytes(last.size ?? last.checkpointed_size)].join(" · "), last.path ?? ""];
}

// -- the graph with the panel of the operator in focus

function graphCard() {
  const box = card("Job graph");
  const panel = h("aside", { class: "op-panel", hidden: true, "aria-label": "Operator" });
  let known = [];
  const graph = new Graph((id) => panelFor(panel, known.find((one) => one.id === id), () => graph.select(null)));
  const wait = empty("Waiting for the plan…", "");
  replace(box.body, wait);
  return {
    section: box.section,
    select: (id) => {
      graph.select(id);
      box.section.scrollIntoView({ block: "nearest" });
    },
    fail: (error) => !known.length && replace(box.body, empty("The graph can't be shown", error.message)),
    show(vertices, edges) {
      if (!known.length) replace(box.body, h("div", { class: "graph-row" }, graph.element, panel));
      known = vertices;
      box.note.textContent = `${plural(vertices.length, "operator")} in ${plural(new Set(vertices.map((one) => one.level)).size, "level")}`;
      graph.update(vertices, edges);
      if (graph.selected) panel.update?.(vertices.find((one) => one.id === graph.selected));
    },
  };
}

function panelFor(panel, vertex, close) {
  panel.hidden = !vertex;
  if (!vertex) return;
  const numbers = h("div");
  const subtasks = h("div", { class: "op-subtasks" });
  panel.update = (one) => {
    if (!one || panel.contains(document.activeElement)) return;
    replace(numbers, vertexFacts(one));
    replace(subtasks, subtaskTable(one));
  };
  const closing = h("button", { class: "button icon-only", type: "button", "aria-label": "Close", on: { click: close } }, "✕");
  replace(panel, h("header", { class: "op-panel-head" }, h("h3", {}, vertex.name), closing), numbers, subtasks);
  panel.update(vertex);
}

function vertexFacts(one) {
  return facts([
    ["Kind", one.kind],
    ["Level", count(one.level)],
    ["Parallelism", count(one.parallelism)],
    ["Busy", percent(one.busy)],
    ["In", `${rate(one.records_in_per_second)} · ${count(one.records_in)} in all`],
    ["Out", `${rate(one.records_out_per_second)} · ${count(one.records_out)} in all`],
    one.backlog != null && ["Waiting", plural(one.backlog, "record")],
    ["Watermark", watermark(one.watermark)],
    one.keys > 0 && ["Keys", count(one.keys)],
    one.state_bytes > 0 && ["State", bytes(one.state_bytes)],
    ["Id", h("span", { class: "with-button" }, h("code", {}, tail(one.id, 14)), copyButton(one.id))],
  ]);
}

function subtaskTable({ kind, subtasks }) {
  if (!subtasks?.length) return null;
  const records = (one) => (kind === "source" ? one.records_out : one.records_in) ?? 0;
  const most = Math.max(1, ...subtasks.map(records));
  const rows = subtasks.slice(0, 64).map((one) => {
    const bar = h("span", { class: "bar-fill" });
    bar.style.setProperty("transform", `scaleX(${records(one) / most})`);
    return h("tr", {}, h("th", { scope: "row" }, one.index), h("td", {}, h("span", { class: "bar" }, bar)), h("td", { class: "number" }, short(records(one))), h("td", { class: "number" }, percent(one.busy)));
  });
  const names = [["Subtask"], ["Share"], ["Records", "number"], ["Busy", "number"]];
  const head = h("tr", {}, names.map(([name, kind]) => h("th", { scope: "col", class: kind }, name)));
  return h("table", { class: "table tight" }, h("caption", { class: "off-screen" }, "Subtasks"), h("thead", {}, head), h("tbody", {}, rows));
}

// -- all operators as a table

function operatorTable(onPick) {
  const box = card("Operators");
  const filter = h("input", { class: "input", type: "search", placeholder: "Find an operator", "aria-label": "Find an operator" });
  let [known, order] = [[], "flow"];
  const orders = choice("Order", [["flow", "In flow order"], ["busy", "Busiest first"]], order, (wanted) => {
    order = wanted;
    table.page = 0;
    show();
  });
  const columns = [{ name: "Operator" }, ...["In", "Out", "Waiting", "Busy", "Keys", "State", "Watermark"].map((name) => ({ name, class: "number" }))];
  const table = new PagedTable({ label: "Operators", columns, row, size: 20 });
  function row(one) {
    const name = h("button", { class: "link", type: "button", title: one.name, on: { click: () => onPick(one.id) } }, one.name);
    const cells = [
      one.kind === "source" ? NONE : rate(one.records_in_per_second),
      one.kind === "sink" ? NONE : rate(one.records_out_per_second),
      one.backlog == null ? NONE : short(one.backlog),
      percent(one.busy),
      one.keys ? short(one.keys) : NONE,
      one.state_bytes ? bytes(one.state_bytes) : NONE,
      watermark(one.watermark),
    ];
    return h("tr", {}, h("th", { scope: "row", class: "name" }, name, h("span", { class: "quiet" }, ` ×${one.parallelism}`)), cells.map((text) => h("td", { class: "number" }, text)));
  }
  const show = () => {
    const wanted = filter.value.trim().toLowerCase();
    const sorted = [...known].sort((a, b) => (order === "busy" ? (b.busy ?? 0) - (a.busy ?? 0) : a.level - b.level));
    table.show(sorted.filter((one) => one.name.toLowerCase().includes(wanted)));
  };
  filter.addEventListener("input", show);
  replace(box.tools, orders, filter);
  replace(box.body, table.element);
  return {
    section: box.section,
    show(vertices) {
      known = vertices;
      box.tools.hidden = known.length < 8;
      if (!table.body.contains(document.activeElement)) show();
    },
  };
}

