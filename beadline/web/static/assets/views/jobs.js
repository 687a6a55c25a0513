// The jobs that this server knows: those that run, and those that have ended.

import { get, needsNoToken } from "../core/api.js";
import { card, empty, h, replace } from "../core/dom.js";
import { bytes, count, duration, plural, rate, short, time } from "../core/format.js";
import { Feed } from "../core/feed.js";
import { PagedTable, badge, trouble } from "../core/shell.js";

const ENDED = new Set(["FINISHED", "FAILED", "CANCELED", "SUSPENDED"]);

export function jobs(root) {
  const feed = new Feed();
  const running = card("Running");
  const ended = card("Ended");
  const grid = h("div", { class: "job-grid" });
  const table = new PagedTable({ label: "Ended jobs", columns: [{ name: "Job" }, { name: "State" }, { name: "Started" }, { name: "Ended" }, { name: "Ran for", class: "number" }], row: endedRow, size: 20 });
  replace(ended.body, table.element);
  const elsewhere = card("Running in other processes");
  elsewhere.section.hidden = true;
  const page = h("div", { class: "page" }, h("h1", { class: "page-title" }, "Jobs"), running.section, elsewhere.section, ended.section);
  replace(root, page);
  let shape = "";
  feed.watch("/jobs/overview", {
    every: 2000,
    onError: (error) => replace(running.body, trouble(error)),
    onData: ({ jobs: all }) => {
      const live = all.filter((job) => !ENDED.has(job.state)).sort((a, b) => b["start-time"] - a["start-time"]);
      const over = all.filter((job) => ENDED.has(job.state)).sort((a, b) => b["end-time"] - a["end-time"]);
      running.note.textContent = live.length ? plural(live.length, "job") : "";
      ended.section.hidden = !over.length;
      ended.note.textContent = plural(over.length, "job");
      const now = JSON.stringify([live.map((job) => [job.jid, job.state]), over.map((job) => job.jid)]);
      if (now !== shape) {
        shape = now;
        if (live.length) replace(running.body, replace(grid, live.map(jobCard)));
        else replace(running.body, empty("No job is running here", over.length ? "Those that have ended are below." : "Start one with “beadline run program.py”; this page shows it without reloading."));
        table.show(over);
      }
      live.forEach((job) => fillIn(grid, job));
    },
  });
  feed.watch("/beadline/running", {
    every: 5000,
    onData: ({ jobs: others, token_required }) => {
      if (token_required === false) needsNoToken();
      elsewhere.section.hidden = !others.length;
      elsewhere.note.textContent = "each has a page of its own";
      const now = JSON.stringify(others.map((job) => job.url + job.job_id));
      if (now !== elsewhere.shape) replace(elsewhere.body, h("div", { class: "job-grid" }, others.map(otherCard)));
      elsewhere.shape = now;
    },
  });
  return () => feed.close();
}

/** A job of another driver: a link to that driver's own page, which asks for its own token. */
function otherCard(job) {
  return h(
    "a",
    { class: "job-card", href: `${job.url.replace(/\/$/, "")}/#/jobs/${encodeURIComponent(job.job_id)}/overview` },
    h("span", { class: "job-card-head" }, h("span", { class: "job-card-name", title: job.name }, job.name), h("span", { class: "quiet" }, job.engine ?? "")),
    h("span", { class: "job-card-id" }, job.job_id),
    h("span", { class: "quiet" }, `since ${time(job.started_at)}, process ${job.pid}, ${job.url}`),
  );
}

function jobCard(job) {
  return h(
    "a",
    { class: "job-card", href: `#/jobs/${job.jid}/overview`, "data-job": job.jid },
    h("span", { class: "job-card-head" }, h("span", { class: "job-card-name", title: job.name }, job.name), badge(job.state)),
    h("span", { class: "job-card-id" }, job.jid),
    h("span", { class: "job-card-numbers" }),
  );
}

/** The numbers of a running job, from its own summary; kept simple if there is none. */
async function fillIn(grid, job) {
  const numbers = grid.querySelector(`[data-job="${CSS.escape(job.jid)}"] .job-card-numbers`);
  if (!numbers) return;
  const pair = (name, value) => h("span", { class: "pair" }, h("span", { class: "pair-name" }, name), h("span", { class: "pair-value" }, value));
  const ran = pair("running for", duration(job.duration));
  try {
    const own = await get(`/jobs/${job.jid}/beadline`);
    replace(numbers, pair("records/s", rate(own.records_per_second)), pair("records", short(own.records)), pair("state", bytes(own.state_bytes)), pair("restarts", count(own.restarts ?? 0)), ran);
  } catch {
    replace(numbers, ran);
  }
}

function endedRow(job) {
  return h(
    "tr",
    {},
    h("th", { scope: "row", class: "name" }, h("a", { href: `#/jobs/${job.jid}/overview`, title: job.name }, job.name)),
    h("td", {}, badge(job.state)),
    h("td", {}, time(job["start-time"])),
    h("td", {}, time(job["end-time"])),
    h("td", { class: "number" }, duration(job.duration)),
  );
}
