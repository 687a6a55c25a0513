// How the job runs: where it came from, its options, the driver's settings.

import { card, copyButton, empty, h, replace } from "../core/dom.js";
import { NONE, fullTime } from "../core/format.js";
import { PagedTable, facts, trouble } from "../core/shell.js";

export function configuration(root, job) {
  const about = card("The job");
  const execution = card("Execution");
  const parameters = optionTable("Parameters of the job", "The program sets none.");
  const driver = optionTable("Options", "All is as Beadline has it by default.");
  replace(root, h("div", { class: "stack" }, h("div", { class: "pair-of-cards" }, about.section, execution.section), driver.section, parameters.section));
  const stops = [
    job.onSummary((one) => !about.body.contains(document.activeElement) && replace(about.body, aboutFacts(one))),
    job.withSettings(ask, () => {
      driver.section.hidden = parameters.section.hidden = true;
      replace(execution.body, empty("The settings are not known", "They went with the driver of this job, which was killed."));
    }),
  ];
  function ask() {
    const asked = [
      job.feed.watch(`${job.path}/config`, {
        onData: (answer) => {
          const config = answer["execution-config"] ?? {};
          replace(execution.body, executionFacts(config));
          parameters.show(Object.entries(config["user-config"] ?? {}));
        },
        onError: (error) => replace(execution.body, trouble(error)),
      }),
      job.feed.watch(`${job.path}/jobmanager/config`, {
        onData: (answer) => driver.show((Array.isArray(answer) ? answer : []).map(({ key, value }) => [key, value])),
        onError: (error) => driver.fail(error),
      }),
    ];
    return () => asked.forEach((stop) => stop());
  }
  return () => stops.forEach((stop) => stop());
}

const path = (text) => h("span", { class: "with-button" }, h("code", { class: "path", title: text }, h("bdi", {}, text)), copyButton(text));

function aboutFacts(one) {
  return facts([
    ["Name", one.name],
    ["Id", path(one.job_id)],
    ["Program", one.script ? path(one.script) : NONE],
    ["Engine", one.engine],
    ["Guarantee", one.guarantee || NONE],
    ["Process", one.pid ? String(one.pid) : NONE],
    ["Log", one.log ? path(one.log) : "on the driver's terminal"],
    ["Started", fullTime(one.started_at)],
    one.ended_at && ["Ended", fullTime(one.ended_at)],
  ]);
}

function executionFacts(config) {
  return facts([
    config["execution-mode"] && ["Mode", config["execution-mode"]],
    ["Parallelism", config["job-parallelism"] === -1 ? "as the engine has slots" : String(config["job-parallelism"] ?? NONE)],
    ["Restart strategy", config["restart-strategy"]],
    ["Object reuse", config["object-reuse-mode"] ? "yes" : "no"],
  ]);
}

/** A long key goes on in the next line after a dot, not within a word. */
const brokenAtDots = (key) => key.split(/(?<=\.)/).flatMap((part) => [part, h("wbr", {})]);

function optionTable(title, without) {
  const box = card(title);
  const filter = h("input", { class: "input", type: "search", placeholder: "Find an option", "aria-label": `Find in ${title.toLowerCase()}` });
  const row = ([key, value]) => h("tr", {}, h("th", { scope: "row", class: "option" }, h("code", {}, brokenAtDots(key))), h("td", { class: "option-value" }, h("code", {}, value === "" ? "(empty)" : String(value))));
  const table = new PagedTable({ label: title, columns: [{ name: "Option" }, { name: "Value" }], row, size: 40, wraps: true });
  let all = [];
  const show = () => {
    const wanted = filter.value.trim().toLowerCase();
    table.show(all.filter(([key, value]) => `${key} ${value}`.toLowerCase().includes(wanted)));
  };
  filter.addEventListener("input", show);
  replace(box.body, h("p", { class: "quiet" }, "Asking…"));
  return {
    section: box.section,
    fail: (error) => replace(box.body, trouble(error)),
    show(entries) {
      all = entries.sort(([a], [b]) => a.localeCompare(b));
      replace(box.tools, all.length > 8 ? filter : null);
      replace(box.body, all.length ? table.element : empty("Nothing is set", without));
      show();
    },
  };
}
