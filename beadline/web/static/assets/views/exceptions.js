// What failed, newest first, with the line of the user's program on top.

import { card, copyButton, empty, h, replace } from "../core/dom.js";
import { ago, fullTime, plural, time } from "../core/format.js";
import { trouble } from "../core/shell.js";

const FRAME = /^\s*File "([^"]+)", line (\d+)(?:, in (.+))?$/;
// Code of libraries; a frame elsewhere is the user's.
const LIBRARY = /[\\/](site-packages|dist-packages|pyspark|py4j|lib[\\/]python\d)[\\/]|[\\/]beadline[\\/](runtime|master|datastream|state|connectors|api|cep|common|checkpoint|graph|table|web|cli)[\\/]|^<frozen/;

export function exceptions(root, job) {
  const box = card("Exceptions");
  replace(root, box.section);
  replace(box.body, h("p", { class: "quiet" }, "Asking…"));
  let restarts = [];
  let entries = null;
  const draw = () => entries && replace(box.body, entries.length ? entries.map((entry, index) => exceptionCard(entry, restarts, index === 0)) : calm(job));
  const stops = [
    job.feed.watch(`${job.path}/exceptions`, {
      every: job.live ? 15000 : Infinity,
      on: ["ExecutionFailed", "StatusChanged"],
      onError: (error) => replace(box.body, trouble(error)),
      onData: (answer) => {
        const found = entriesOf(answer);
        if (entries && JSON.stringify(found) === JSON.stringify(entries)) return;
        entries = found;
        box.note.textContent = entries.length ? `${plural(entries.length, "failure")}, newest first${answer.exceptionHistory?.truncated ? "; older ones are not kept" : ""}` : "";
        draw();
      },
    }),
    job.onStory((story) => {
      if (story.failures.length === restarts.length) return;
      restarts = [...story.failures];
      draw();
    }),
  ];
  return () => stops.forEach((stop) => stop());
}

/** Flink numbers the executions of a task from 0, and all pages here from 1. */
const ourCount = (task) => task.replace(/ - execution #(\d+)$/, (_, number) => `, execution ${Number(number) + 1}`);
const calm = (job) => empty("Nothing has failed", job.live ? "Should an execution fail, its exception appears here, with the line of your program on top." : "The job ended without an exception.");

/** The history, and the exception that ended the job if the history lacks it. */
function entriesOf(answer) {
  const history = [...(answer.exceptionHistory?.entries ?? [])];
  const root = answer["root-exception"];
  if (root && !history.length) history.push({ exceptionName: root.split(/[:\n]/)[0], stacktrace: root, timestamp: answer.timestamp });
  return history.sort((a, b) => b.timestamp - a.timestamp);
}

function exceptionCard(entry, restarts, open) {
  const text = entry.stacktrace ?? "";
  const line = usersLine(text);
  const restart = restarts.find((one) => Math.abs(one.at - entry.timestamp) < 2000);
  const facts = [
    h("span", { title: fullTime(entry.timestamp) }, time(entry.timestamp), h("span", { class: "quiet" }, ` · ${ago(entry.timestamp)}`)),
    entry.taskName && h("span", {}, "in ", h("strong", {}, ourCount(entry.taskName))),
    restart && h("span", {}, restart.restarted_from ? `went on from ${restart.restarted_from}` : "the job did not go on"),
  ];
  const more = h("details", { class: "trace", open: open && !line ? true : null }, h("summary", {}, "Whole traceback"), h("pre", { tabindex: 0 }, text), copyButton(text, "Copy traceback"));
  return h("article", { class: "exception" }, h("h3", {}, message(entry)), h("p", { class: "exception-facts" }, facts), line && where(line), more);
}

/** The last line of a traceback has the message; the class alone says little. */
function message(entry) {
  const lines = (entry.stacktrace ?? "").split("\n").map((one) => one.trim()).filter(Boolean);
  const named = lines.findLast((one) => /^[\w.]+(Error|Exception|Interrupt|Exit|Warning|Failure)\b.*/.test(one)) ?? lines.find((one) => one.includes(entry.exceptionName ?? "\0"));
  return named ?? entry.exceptionName ?? lines[0] ?? "Unknown failure";
}

function where({ file, line, name, code }) {
  const [folder, base] = [file.slice(0, file.lastIndexOf("/") + 1), file.slice(file.lastIndexOf("/") + 1)];
  return h(
    "div",
    { class: "users-line" },
    h("p", { class: "users-place" }, h("span", { class: "quiet" }, folder), h("strong", {}, `${base}:${line}`), name && h("span", { class: "quiet" }, ` in ${name}`)),
    code && h("pre", {}, h("code", {}, code)),
  );
}

/** The innermost frame that is not a library's. */
export function usersLine(text) {
  const lines = text.split("\n");
  let found = null;
  lines.forEach((one, index) => {
    const match = FRAME.exec(one);
    if (!match || LIBRARY.test(match[1])) return;
    const next = lines[index + 1];
    found = { file: match[1], line: match[2], name: match[3], code: next && !FRAME.test(next) && /^\s/.test(next) ? next.trim() : null };
  });
  return found;
}
