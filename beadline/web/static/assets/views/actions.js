// Savepoint, stop and cancel: each asks first, says what will happen, follows it, and shows what came of it.

import { ApiError, Away, change, connection, get } from "../core/api.js";
import { copyButton, h, icon } from "../core/dom.js";
import { openDialog } from "./dialog.js";

const ASK_EVERY = 400;

export function askForSavepoint(job) {
  const form = savepointForm(job);
  const dialog = openDialog("Take a savepoint");
  dialog.say(
    h("p", {}, "The job keeps running. A complete copy of its state, and of how far its sources have read, is written at the end of the next step. It belongs to you: Beadline never deletes it."),
    form.element,
  );
  dialog.buttons(["Not now", () => dialog.close()], ["Take savepoint", () => follow(dialog, job, SAVEPOINT, form.read()), "primary"]);
  form.focus();
}

export function askToStop(job) {
  const form = savepointForm(job);
  const drain = h("input", { type: "checkbox", name: "drain" });
  const warning = h("span", { class: "field-note" }, "All windows and event-time timers fire, as if the input had ended. Not for a job that you mean to resume.");
  const dialog = openDialog(`Stop ${job.summary?.name ?? "the job"}?`);
  dialog.say(
    h("p", {}, "The job takes a last savepoint, publishes what its sinks hold, and ends as FINISHED. From the savepoint it can be resumed, with another parallelism or a new version of the program."),
    form.element,
    h("label", { class: "check" }, drain, h("span", {}, "Drain the pipeline first ", warning)),
  );
  dialog.buttons(["Keep running", () => dialog.close()], ["Stop with savepoint", () => follow(dialog, job, STOP, { ...form.read(), drain: drain.checked }), "primary"]);
  form.focus();
}

export function askToCancel(job) {
  const dialog = openDialog(`Cancel ${job.summary?.name ?? "the job"}?`);
  dialog.say(
    h("p", {}, "The running step is dropped, and the job ends as CANCELED, without a savepoint."),
    h("p", {}, "Whether its last checkpoint stays depends on the retention that the job sets. To resume it later for certain, take a savepoint or use Stop."),
  );
  const [keep] = dialog.buttons(["Keep running", () => dialog.close()], ["Cancel job", () => cancel(dialog, job), "danger"]);
  keep.focus();
}

function savepointForm(job) {
  const folder = h("input", { class: "input mono", name: "folder", spellcheck: "false", autocomplete: "off", placeholder: "the job's own savepoint folder" });
  const format = h("select", { class: "input", name: "format" }, h("option", { value: "CANONICAL" }, "Canonical: Parquet, for any version"), h("option", { value: "NATIVE" }, "Native: quick, as the job stores it"));
  const element = h("div", { class: "fields" }, h("label", { class: "field" }, h("span", {}, "Folder on the driver's machine"), folder), h("label", { class: "field" }, h("span", {}, "Format"), format));
  return { element, focus: () => folder.focus(), read: () => ({ folder: folder.value.trim() || null, format: format.value }) };
}

const SAVEPOINT = {
  name: "savepoint",
  ask: askForSavepoint,
  doing: "Taking the savepoint…",
  done: "Savepoint completed",
  send: (job, { folder, format }) => change("POST", `${job.path}/savepoints`, { ...(folder && { "target-directory": folder }), "cancel-job": false, formatType: format }),
};

const STOP = {
  name: "stop",
  ask: askToStop,
  doing: "Stopping: the last savepoint is written…",
  done: "The job has stopped",
  send: (job, { folder, format, drain }) => change("POST", `${job.path}/stop`, { ...(folder && { targetDirectory: folder }), drain, formatType: format }),
};

/** Sends the request and waits for its end. A job that stops takes its driver along: then its last event has the path. */
async function follow(dialog, job, act, wanted) {
  dialog.say(h("p", { class: "doing", role: "status" }, h("span", { class: "spinner", "aria-hidden": "true" }), act.doing));
  dialog.buttons(["Close", () => dialog.close()]);
  let told = null;
  const since = job.summary?.now ?? 0;
  const stop = job.feed.hear(({ type, data }) => {
    if (type === "CheckpointChanged" && data.at >= since && /savepoint/i.test(data.type) && data.path && /completed|published/.test(data.phase)) told = data.path;
  });
  try {
    const answer = await act.send(job, wanted);
    const result = await outcome(job, answer["request-id"], () => told, act === STOP);
    if (result.failure) failed(dialog, act, result.failure, job);
    else succeeded(dialog, job, act, result.location);
  } catch (error) {
    if (!(error instanceof ApiError || error instanceof Away)) throw error;
    failed(dialog, act, error.message, job);
  } finally {
    stop();
  }
  job.feed.askAgain();
}

async function outcome(job, request, told, ends) {
  for (;;) {
    await new Promise((done) => setTimeout(done, ASK_EVERY));
    try {
      const answer = await get(`${job.path}/savepoints/${request}`);
      if (answer.status?.id === "COMPLETED") {
        const cause = answer.operation?.["failure-cause"];
        return cause ? { failure: causeText(cause) } : { location: answer.operation?.location };
      }
    } catch (error) {
      if (told()) return { location: told() };
      if (!(error instanceof Away) && !ends) throw error;
      if (ends && connection.state === "away" && Date.now() - connection.since > 8000) {
        return { failure: "the driver ended before it could say where the savepoint is; its log and the job's savepoint folder tell" };
      }
      if (error instanceof ApiError && error.status !== 404) throw error;
    }
  }
}

const causeText = (cause) => (typeof cause === "string" ? cause : cause["stack-trace"] ?? cause.class ?? JSON.stringify(cause)).split("\n")[0];

function succeeded(dialog, job, act, path) {
  dialog.title(act.done);
  const script = job.summary?.script;
  const command = `beadline run -s ${quoted(path)} ${script ? quoted(script) : "program.py"}`;
  dialog.say(
    h("p", { class: "outcome good", role: "status" }, icon("check"), h("span", {}, "It lies at")),
    copyable(path, "savepoint-path"),
    act === STOP && h("p", {}, "To resume the job from it:"),
    act === STOP && copyable(command, "resume-command"),
  );
  dialog.buttons(["Done", () => dialog.close(), "primary"])[0].focus();
}

function copyable(text, name) {
  return h("div", { class: "copyable" }, h("code", { "data-name": name }, text), copyButton(text));
}

const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);

function failed(dialog, act, message, job) {
  dialog.title(act === CANCEL ? "The job was not cancelled" : act === STOP ? "The job was not stopped" : "No savepoint was taken");
  dialog.say(h("p", { class: "outcome bad", role: "alert" }, message));
  const again = () => {
    dialog.close();
    act.ask(job);
  };
  dialog.buttons(["Close", () => dialog.close()], ["Try again…", again, "primary"])[0].focus();
}

const CANCEL = { name: "cancel", ask: askToCancel };

async function cancel(dialog, job) {
  dialog.say(h("p", { class: "doing", role: "status" }, h("span", { class: "spinner", "aria-hidden": "true" }), "Cancelling…"));
  dialog.buttons(["Close", () => dialog.close()]);
  try {
    await change("PATCH", `${job.path}?mode=cancel`);
    dialog.title("The job was told to cancel");
    dialog.say(h("p", { class: "outcome good", role: "status" }, icon("check"), h("span", {}, "Its state on this page becomes “canceled” in a moment, and its driver may end.")));
    dialog.buttons(["Done", () => dialog.close(), "primary"])[0].focus();
  } catch (error) {
    if (!(error instanceof ApiError || error instanceof Away)) throw error;
    failed(dialog, CANCEL, error.message, job);
  }
  job.feed.askAgain();
}
