// Parts that several pages use: badges, tiles, key-value lists, tables with pages.

import { card, h, icon, replace, say } from "./dom.js";
import { NONE, plural } from "./format.js";

const TONES = {
  RUNNING: "good", FINISHED: "good", COMPLETED: "good", CREATED: "calm", INITIALIZING: "calm", IN_PROGRESS: "calm", SCHEDULED: "calm",
  RESTARTING: "warn", FAILING: "bad", FAILED: "bad", CANCELLING: "warn", CANCELED: "mute", SUSPENDED: "mute", RECONCILING: "warn",
};

export function badge(state) {
  const element = h("span", { class: "badge" });
  showBadge(element, state);
  return element;
}

export function showBadge(element, state) {
  element.className = `badge ${TONES[state] ?? "mute"}`;
  say(element, (state ?? "unknown").toLowerCase().replace("_", " "));
}

/** A headline number. ``show(value, note)`` changes it. */
export function tile(label, extra = null) {
  const value = h("span", { class: "tile-value" }, NONE);
  const note = h("span", { class: "tile-note" });
  const element = h("div", { class: "tile" }, h("span", { class: "tile-label" }, label), value, note, extra);
  return {
    element,
    show(text, more = "", title = "") {
      say(value, text);
      say(note, more);
      if (title) element.title = title;
    },
  };
}

export function facts(entries) {
  return h("dl", { class: "facts" }, entries.filter(Boolean).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value ?? NONE))));
}

/** A table that shows some of its rows at a time, so that thousands cost no more than a screenful. */
export class PagedTable {
  constructor({ label, columns, row, size = 25, wraps = false }) {
    Object.assign(this, { columns, row, size, rows: [], page: 0 });
    this.body = h("tbody");
    this.where = h("span", { class: "pager-where", "aria-live": "polite" });
    this.previous = h("button", { class: "button small", type: "button", "aria-label": "Previous page", on: { click: () => this.turn(-1) } }, icon("left"));
    this.next = h("button", { class: "button small", type: "button", "aria-label": "Next page", on: { click: () => this.turn(1) } }, icon("right"));
    this.pager = h("nav", { class: "pager", "aria-label": `Pages of ${label}` }, this.where, this.previous, this.next);
    const head = h("tr", {}, columns.map((column) => h("th", { scope: "col", class: column.class }, column.name)));
    this.table = h("table", { class: wraps ? "table wraps" : "table" }, h("caption", { class: "off-screen" }, label), h("thead", {}, head), this.body);
    this.element = h("div", {}, h("div", { class: "table-scroll", tabindex: 0, role: "region", "aria-label": label }, this.table), this.pager);
  }

  show(rows) {
    this.rows = rows;
    this.page = Math.min(this.page, Math.max(0, Math.ceil(rows.length / this.size) - 1));
    this.draw();
  }

  turn(by) {
    this.page += by;
    this.draw();
  }

  draw() {
    const from = this.page * this.size;
    const shown = this.rows.slice(from, from + this.size);
    replace(this.body, shown.map((one) => this.row(one)));
    const last = from + this.size >= this.rows.length;
    this.pager.hidden = this.rows.length <= this.size;
    this.previous.disabled = this.page === 0;
    this.next.disabled = last;
    say(this.where, `${from + 1}–${from + shown.length} of ${plural(this.rows.length, "entry", "entries")}`);
  }
}

/** One of several choices, as buttons in a row. */
export function choice(label, options, chosen, onChoose) {
  const buttons = options.map(([value, text]) =>
    h("button", { class: "segment", type: "button", "aria-pressed": String(value === chosen), on: { click: () => choose(value) } }, text),
  );
  function choose(value) {
    buttons.forEach((button, index) => button.setAttribute("aria-pressed", String(options[index][0] === value)));
    onChoose(value);
  }
  return h("div", { class: "segments", role: "group", "aria-label": label }, buttons);
}

/** A message where a part can't be shown, in the server's own words. */
const NEEDS_TOKEN = "State and options are for the owner of the job. Press “Read only” above, or open the address that “beadline list” prints.";

export const trouble = (error) => error.status === 401 ? h("div", { class: "empty", role: "alert" }, h("p", { class: "empty-title" }, "This needs the job's token"), h("p", {}, NEEDS_TOKEN)) : h("div", { class: "empty", role: "alert" }, h("p", { class: "empty-title" }, "This can't be shown"), h("p", {}, error.message));

export { card };
