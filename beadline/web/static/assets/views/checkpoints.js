// Checkpoints: counts, the latest of each sort, plots over time, percentiles, the history, and how they are taken.

import { card, copyButton, empty, h, replace } from "../core/dom.js";
import { NONE, ago, bytes, clock, count, duration, fullTime, percent, plural, time } from "../core/format.js";
import { PagedTable, badge, choice, facts, tile, trouble } from "../core/shell.js";
import { Plot } from "../drawing/charts.js";
import { checkpointDetail, typeText } from "./checkpoint_detail.js";

const SHOWN = {
  all: () => true,
  completed: (one) => one.status === "COMPLETED",
  failed: (one) => one.status === "FAILED",
  savepoints: (one) => one.is_savepoint,
};

export function checkpoints(root, job) {
  const counts = countTiles();
  const latest = h("div", { class: "latest" });
  const plots = plotCard((point) => table.open(point.id));
  const summary = card("Percentiles");
  const table = historyCard(job);
  const settings = card("How checkpoints are taken");
  const body = h("div", { class: "stack" }, counts.element, latest, plots.section, table.section, h("div", { class: "pair-of-cards" }, summary.section, settings.section));
  replace(root, body);
  const stops = [
    job.feed.watch(`${job.path}/checkpoints`, {
      every: job.live ? 10000 : Infinity,
      on: ["CheckpointChanged", "ExecutionStarted"],
      onError: (error) => replace(root, noCheckpoints(error)),
      onData: (answer) => {
        if (!root.contains(body)) replace(root, body);
        const history = answer.history ?? [];
        counts.show(answer.counts ?? {});
        replace(latest, latestCards(answer.latest ?? {}));
        plots.show(history);
        table.show(history);
        replace(summary.body, percentiles(answer.counts?.completed ? answer.summary : null));
      },
    }),
    job.withSettings(
      () =>
        job.feed.watch(`${job.path}/checkpoints/config`, {
          onData: (answer) => replace(settings.body, settingFacts(answer)),
          onError: (error) => replace(settings.body, trouble(error)),
        }),
      () => (settings.section.hidden = true),
    ),
  ];
  return () => stops.forEach((stop) => stop());
}

const noCheckpoints = (error) => (error.status === 404 ? empty("No checkpoints", error.message) : trouble(error));

function countTiles() {
  const names = [["total", "Triggered"], ["in_progress", "In progress"], ["completed", "Completed"], ["failed", "Failed"], ["restored", "Restored"]];
  const tiles = names.map(([key, label]) => [key, tile(label)]);
  return {
    element: h("section", { class: "tiles counts", "aria-label": "Counts" }, tiles.map(([, one]) => one.element)),
    show(counts) {
      for (const [key, one] of tiles) one.show(count(counts[key] ?? 0));
      tiles[3][1].element.classList.toggle("attention", counts.failed > 0);
    },
  };
}

function latestCards({ completed, failed, savepoint, restored }) {
  return [
    latestCard("Latest completed", completed, (one) => [
      ["Id", h("span", {}, count(one.id))],
      ["When", when(one.latest_ack_timestamp)],
      ["Took", duration(one.end_to_end_duration)],
      ["Written / full", `${bytes(one.checkpointed_size)} / ${bytes(one.state_size)}`],
      one.external_path && ["Path", path(one.external_path)],
    ]),
    latestCard("Latest savepoint", savepoint, (one) => [["Id", count(one.id)], ["When", when(one.latest_ack_timestamp)], ["Size", bytes(one.state_size)], one.external_path && ["Path", path(one.external_path)]]),
    latestCard("Latest failed", failed, (one) => [["Id", count(one.id)], ["When", when(one.failure_timestamp ?? one.latest_ack_timestamp ?? one.trigger_timestamp)], ["Cause", one.failure_message ?? NONE]], "bad"),
    latestCard("Latest restore", restored, (one) => [["Id", count(one.id)], ["When", when(one.restore_timestamp)], ["Type", one.is_savepoint ? "savepoint" : "checkpoint"], one.external_path && ["Path", path(one.external_path)]]),
  ];
}

function latestCard(title, one, entries, tone = "") {
  return h("section", { class: `card small-card ${one ? tone : "quiet-card"}`, "aria-label": title }, h("h2", {}, title), one ? facts(entries(one)) : h("p", { class: "quiet" }, "none"));
}

const when = (at) => h("span", { title: fullTime(at) }, `${time(at)}`, h("span", { class: "quiet" }, ` · ${ago(at)}`));
const path = (text) => h("span", { class: "with-button" }, h("code", { class: "path", title: text }, h("bdi", {}, text)), copyButton(text));

// -- plots

function plotCard(onPick) {
  const box = card("Over time");
  const plots = {
    duration: new Plot({ title: "Duration", format: duration, onPick }),
    size: new Plot({ title: "Written", format: bytes, binary: true, onPick }),
    full: new Plot({ title: "Full size", format: bytes, binary: true, onPick }),
    interval: new Plot({ title: "Interval", format: duration, onPick }),
  };
  replace(box.body, h("div", { class: "plots" }, Object.values(plots).map((plot) => plot.element)), h("p", { class: "hint" }, "Written: all that a checkpoint has added to the storage, its metadata too. Full size: the state that it refers to, whoever wrote it."));
  return {
    section: box.section,
    show(history) {
      const byTime = [...history].filter((one) => one.status !== "IN_PROGRESS").sort((a, b) => a.trigger_timestamp - b.trigger_timestamp);
      const points = (of) => byTime.filter((one) => Number.isFinite(of(one))).map((one) => ({ x: one.trigger_timestamp, y: of(one), id: one.id, failed: one.status === "FAILED", text: `#${one.id}` }));
      const done = (of) => (one) => (one.status === "COMPLETED" ? of(one) : NaN);
      plots.duration.show(points((one) => one.end_to_end_duration));
      plots.size.show(points(done((one) => one.checkpointed_size)));
      plots.full.show(points(done((one) => one.state_size)));
      const own = byTime.filter((one) => !one.is_savepoint);
      plots.interval.show(own.slice(1).map((one, index) => ({ x: one.trigger_timestamp, y: one.trigger_timestamp - own[index].trigger_timestamp, id: one.id, failed: false, text: `#${one.id}` })));
      box.section.hidden = !byTime.length;
      box.note.textContent = byTime.length ? `${plural(byTime.length, "checkpoint")}, ${clock(byTime[0].trigger_timestamp)} to ${clock(byTime.at(-1).trigger_timestamp)}` : "";
    },
  };
}

// -- history

function historyCard(job) {
  const box = card("History");
  const opened = new Map(); // by id: the detail's row, kept while it is open
  let [all, kind] = [[], "all"];
  const columns = [{ name: "Id" }, { name: "Status" }, { name: "Type" }, { name: "Triggered" }, ...["Acknowledged", "Duration", "Written", "Full size"].map((name) => ({ name, class: "number" }))];
  const table = new PagedTable({ label: "Checkpoints, newest first", columns, row, size: 25 });
  function row(one) {
    const open = opened.has(one.id);
    const id = h("button", { class: "link opener", type: "button", "aria-expanded": String(open), "data-checkpoint": one.id, on: { click: () => toggle(one.id) } }, `${one.id}`);
    const main = h(
      "tr",
      { class: open ? "opened" : null },
      h("th", { scope: "row" }, id),
      h("td", {}, badge(one.status)),
      h("td", {}, typeText(one)),
      h("td", { title: fullTime(one.trigger_timestamp) }, time(one.trigger_timestamp)),
      h("td", { class: "number" }, `${count(one.num_acknowledged_subtasks)}/${count(one.num_subtasks)}`, h("span", { class: "quiet" }, one.num_subtasks ? ` ${percent(one.num_acknowledged_subtasks / one.num_subtasks)}` : "")),
      h("td", { class: "number" }, one.status === "IN_PROGRESS" ? NONE : duration(one.end_to_end_duration)),
      h("td", { class: "number" }, one.status === "COMPLETED" ? bytes(one.checkpointed_size) : NONE),
      h("td", { class: "number" }, one.status === "COMPLETED" ? bytes(one.state_size) : NONE),
    );
    return open ? [main, opened.get(one.id)] : main;
  }
  function toggle(id) {
    if (opened.has(id)) opened.delete(id);
    else opened.set(id, h("tr", { class: "detail-row" }, h("td", { colspan: columns.length }, checkpointDetail(job, id))));
    table.draw();
    table.body.querySelector(`[data-checkpoint="${id}"]`)?.focus();
  }
  const show = () => table.show(all.filter(SHOWN[kind]));
  const filter = choice("Which checkpoints", [["all", "All"], ["completed", "Completed"], ["failed", "Failed"], ["savepoints", "Savepoints"]], kind, (wanted) => {
    kind = wanted;
    table.page = 0;
    show();
  });
  replace(box.tools, filter);
  const none = empty("No checkpoint yet", "The first one appears here by itself, when the job takes it.");
  replace(box.body, none);
  return {
    section: box.section,
    show(history) {
      all = [...history].sort((a, b) => b.id - a.id || b.trigger_timestamp - a.trigger_timestamp);
      if (all.length && !box.body.contains(table.element)) replace(box.body, table.element);
      if (!all.length) return;
      // A table in use is not moved under the reader's hands; it follows when the focus has left.
      if (!table.body.contains(document.activeElement)) show();
    },
    /** From a plot: to that checkpoint's row, opened. */
    open(id) {
      if (!SHOWN[kind](all.find((one) => one.id === id) ?? {})) filter.querySelector("button").click();
      const at = all.filter(SHOWN[kind]).findIndex((one) => one.id === id);
      if (at < 0) return;
      table.page = Math.floor(at / table.size);
      if (opened.has(id)) table.draw();
      else toggle(id);
      const button = table.body.querySelector(`[data-checkpoint="${id}"]`);
      button?.scrollIntoView({ block: "center" });
      button?.focus({ preventScroll: true });
    },
  };
}

// -- percentiles and configuration

function percentiles(summary) {
  const rows = [["end_to_end_duration", "Duration", duration], ["checkpointed_size", "Written", bytes], ["state_size", "Full size", bytes], ["processed_data", "Processed in flight", bytes], ["persisted_data", "Persisted in flight", bytes]];
  const columns = [["min", "Min"], ["avg", "Average"], ["p50", "50%"], ["p90", "90%"], ["p95", "95%"], ["p99", "99%"], ["p999", "99.9%"], ["max", "Max"]];
  const known = rows.filter(([key]) => summary?.[key]);
  if (!known.length) return empty("Nothing to sum up yet", "Percentiles come with the first completed checkpoint.");
  const value = (one, key, format) => (Number.isFinite(Number(one[key])) && one[key] !== null ? format(Number(one[key])) : NONE);
  return h(
    "div",
    { class: "table-scroll", tabindex: 0, role: "region", "aria-label": "Percentiles" },
    h(
      "table",
      { class: "table" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Over completed"), known.map(([, name]) => h("th", { scope: "col", class: "number" }, name)))),
      h("tbody", {}, columns.map(([key, name]) => h("tr", {}, h("th", { scope: "row" }, name), known.map(([row, , format]) => h("td", { class: "number" }, value(summary[row], key, format)))))),
    ),
  );
}

function settingFacts(config) {
  const keep = config.externalization;
  return facts([
    ["Mode", (config.mode ?? NONE).replaceAll("_", " ")],
    ["Interval", config.interval > 0 && config.interval < 9e15 ? duration(config.interval) : "not by the clock"],
    ["Timeout", duration(config.timeout)],
    ["Minimum pause", duration(config.min_pause)],
    ["Concurrent", count(config.max_concurrent)],
    ["Tolerable failures", config.tolerable_failed_checkpoints > 1e9 ? "any number" : count(config.tolerable_failed_checkpoints)],
    ["Unaligned", config.unaligned_checkpoints ? "yes" : "no"],
    ["Aligned timeout", config.aligned_checkpoint_timeout ? duration(config.aligned_checkpoint_timeout) : NONE],
    ["State backend", config.state_backend],
    ["Storage", config.checkpoint_storage],
    keep && ["Kept after the end", keep.enabled ? (keep.delete_on_cancellation ? "yes, unless cancelled" : "yes") : "no"],
    ["After tasks finish", config.checkpoints_after_tasks_finish ? "yes" : "no"],
  ]);
}
