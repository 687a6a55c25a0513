// The page: routes, the header of a job with its tabs, the theme, and word of whether the driver is there.

import { connection, mayChange, onToken, tryNow } from "./core/api.js";
import { h, icon, replace, say } from "./core/dom.js";
import { clock, duration } from "./core/format.js";
import { Job } from "./core/job.js";
import { jobHeader } from "./views/header.js";
import { jobs } from "./views/jobs.js";
import { askForToken } from "./views/token.js";

// Pages are loaded when they are first opened.
const PAGES = [
  ["overview", "Overview", () => import("./views/overview.js").then((module) => module.overview)],
  ["checkpoints", "Checkpoints", () => import("./views/checkpoints.js").then((module) => module.checkpoints)],
  ["timeline", "Timeline", () => import("./views/timeline.js").then((module) => module.timeline)],
  ["exceptions", "Exceptions", () => import("./views/exceptions.js").then((module) => module.exceptions)],
  ["state", "State", () => import("./views/state.js").then((module) => module.state)],
  ["configuration", "Configuration", () => import("./views/configuration.js").then((module) => module.configuration)],
];

const main = document.getElementById("main");
let job = null;
let closePage = () => {};
let turn = 0;

// -- routes

function leave() {
  closePage();
  closePage = () => {};
}

async function route() {
  const mine = ++turn;
  const [, id, page = "overview"] = /^#\/jobs\/([^/?&]+)(?:\/([a-z]+))?/.exec(decodeURI(location.hash)) ?? [];
  if (!id) {
    leave();
    closeJob();
    closePage = jobs(main);
    document.title = "Beadline";
    return;
  }
  if (job?.id !== id) {
    leave();
    closeJob();
    openJob(id);
  }
  const found = PAGES.find(([name]) => name === page) ?? PAGES[0];
  const make = await found[2]();
  if (mine !== turn) return;
  leave();
  job.header.choose(found[0]);
  job.root.replaceChildren();
  closePage = make(job.root, job);
}

function openJob(id) {
  job = new Job(id);
  job.root = h("div", { class: "page" });
  job.header = jobHeader(job, PAGES);
  replace(main, job.header.element, job.root);
}

function closeJob() {
  job?.header.close();
  job?.close();
  job = null;
}

addEventListener("hashchange", () => {
  if (location.hash === "#main") return main.focus();
  route();
});

// -- light and dark

const themeButton = document.getElementById("theme");
const THEMES = { auto: ["half", "as the system"], light: ["sun", "light"], dark: ["moon", "dark"] };

function showTheme() {
  const now = document.documentElement.dataset.theme ?? "auto";
  replace(themeButton, icon(THEMES[now][0]));
  const label = `Colours: ${THEMES[now][1]}. Press to change`;
  themeButton.setAttribute("aria-label", label);
  themeButton.title = label;
}

themeButton.addEventListener("click", () => {
  const names = Object.keys(THEMES);
  const next = names[(names.indexOf(document.documentElement.dataset.theme ?? "auto") + 1) % names.length];
  if (next === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("beadline.theme", next);
  } catch {
    // It holds for this page then.
  }
  showTheme();
  dispatchEvent(new Event("themechange"));
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("themechange")));

// -- the token

const tokenButton = document.getElementById("token");
function showToken() {
  tokenButton.hidden = mayChange();
  replace(tokenButton, icon("key"), h("span", {}, "Read only"));
  tokenButton.title = "This page may look but not act. Press to learn how to change that";
}
tokenButton.addEventListener("click", askForToken);
onToken(showToken);

// -- whether the driver is there

const sign = document.getElementById("connection");
const banner = document.getElementById("away");
const retry = h("button", { class: "button small", type: "button", on: { click: tryNow } }, "Try now");
const awayText = h("p", {});
replace(banner, awayText, retry);

function showConnection() {
  const { state, since, next } = connection;
  const ended = job?.summary && !job.live;
  sign.className = `connection ${state}`;
  say(sign, state === "live" ? "live" : state === "away" ? "driver away" : "connecting");
  banner.hidden = state !== "away";
  if (state !== "away") return;
  const wait = next ? Math.max(0, Math.ceil((next - Date.now()) / 1000)) : 0;
  const again = wait ? `Trying again in ${wait} s.` : "Trying again…";
  const what = ended
    ? `The job has ended (${job.summary.state.toLowerCase()}) and its driver is gone. The page shows what was last known; “beadline history” serves ended jobs.`
    : `The driver at ${location.host} has not answered since ${clock(since)} (${duration(Date.now() - since)}). The page shows what was last known.`;
  say(awayText, `${what} ${again}`);
}
connection.listeners.add(showConnection);
setInterval(() => connection.state === "away" && !document.hidden && showConnection(), 1000);

showTheme();
showToken();
showConnection();
route();
