// The head of a job's pages: its name, how it is, what can be done with it, and the tabs.

import { mayChange, needsNoToken, onToken } from "../core/api.js";
import { copyButton, h, replace, say } from "../core/dom.js";
import { NONE, duration, time } from "../core/format.js";
import { badge, showBadge } from "../core/shell.js";
import { askToCancel, askToStop, askForSavepoint } from "./actions.js";

export function jobHeader(job, pages) {
  const name = h("h1", {}, "…");
  const state = badge(null);
  const about = h("p", { class: "job-about" });
  const note = h("p", { class: "job-note", hidden: true });
  const missing = h("div", { class: "missing", hidden: true, role: "alert" });
  const buttons = actionButtons(job);
  const tabs = pages.map(([key, title]) => h("a", { class: "tab", href: `#${job.path}/${key}`, "data-tab": key }, title));
  const nav = h("nav", { class: "tabs", "aria-label": "Pages of the job" }, tabs);
  const element = h("div", { class: "job-head" }, h("div", { class: "job-title" }, h("div", { class: "job-names" }, h("div", { class: "job-name" }, name, state), about), buttons.element), note, missing, nav);

  const show = (summary) => {
    missing.hidden = true;
    say(name, summary.name);
    name.title = summary.name;
    showBadge(state, summary.state);
    document.title = `${summary.name} · ${summary.state.toLowerCase()} · Beadline`;
    const ran = (summary.ended_at ?? summary.now) - summary.started_at;
    const parts = [
      h("span", { class: "with-button" }, h("code", { title: summary.job_id ?? job.id }, job.id.slice(0, 12)), copyButton(job.id, "Copy id")),
      h("span", {}, summary.ended_at ? `ended ${time(summary.ended_at)}, ran ${duration(ran)}` : `running for ${duration(ran)}`),
      summary.engine && h("span", {}, `${summary.engine} engine`),
      summary.guarantee && h("span", {}, guaranteeText(summary.guarantee)),
      summary.attempt > 1 && h("span", {}, `execution ${summary.attempt}`),
    ];
    // The button in it must not vanish under the finger that presses it.
    if (!about.contains(document.activeElement)) replace(about, parts);
    buttons.show(summary);
  };
  const fail = (error) => {
    missing.hidden = false;
    say(name, name.textContent === "…" ? "Job not found" : name.textContent);
    replace(missing, h("p", {}, `${error.message} `, h("a", { href: "#/" }, "See the jobs that are here.")));
  };
  const stop = job.onSummary(show);
  const failed = (summary, error) => error && fail(error);
  job.summaryListeners.add(failed);
  return {
    element,
    choose(key) {
      for (const tab of tabs) {
        if (tab.dataset.tab === key) tab.setAttribute("aria-current", "page");
        else tab.removeAttribute("aria-current");
      }
      nav.querySelector("[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    },
    close: stop,
  };
}

/** The guarantee comes as a word or a short text; the first sentence says enough here. */
const guaranteeText = (text) => String(text).split(/[.;(\n]/)[0].trim() || NONE;

function actionButtons(job) {
  const make = (text, label, act, kind = "") => h("button", { class: `button ${kind}`, type: "button", "data-action": label, on: { click: () => mayAct() && act(job) } }, text);
  const why = h("span", { class: "off-screen", id: "why-not" });
  const all = [make("Savepoint", "savepoint", askForSavepoint), make("Stop…", "stop", askToStop), make("Cancel…", "cancel", askToCancel, "danger")];
  const element = h("div", { class: "job-actions", role: "group", "aria-label": "Actions" }, all, why);
  let ended = false;
  const mayAct = () => mayChange() && !ended;
  // Buttons that can't be used stay reachable by keys, so that everybody can learn why.
  const refresh = () => {
    element.hidden = ended;
    const reason = mayChange() ? "" : "Read only: open the address that “beadline list” prints (it ends in #token=…), or press “Read only” above";
    say(why, reason);
    for (const button of all) {
      button.setAttribute("aria-disabled", String(!mayAct()));
      button.title = reason;
      if (reason) button.setAttribute("aria-describedby", "why-not");
      else button.removeAttribute("aria-describedby");
    }
  };
  onToken(refresh);
  refresh();
  return {
    element,
    show(summary) {
      if (summary.token_required === false) needsNoToken();
      ended = !job.live;
      refresh();
    },
  };
}
