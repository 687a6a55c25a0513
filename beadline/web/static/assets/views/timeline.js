// The timeline: a job's story on a time axis that one can zoom into, with an overview to choose a stretch from.

import { card, empty, h, icon, replace, say } from "../core/dom.js";
import { clock, duration, plural, time } from "../core/format.js";
import { PagedTable, choice } from "../core/shell.js";
import { legend } from "../drawing/beads.js";
import { GUTTER, HEIGHT, paint, palette } from "../drawing/lanes.js";
import { Brush } from "../drawing/brush.js";

const SHORTEST = 20; // milliseconds
const SPANS = [["60000", "1 min"], ["600000", "10 min"], ["all", "All"]];

export function timeline(root, job) {
  const view = new TimelineView(job);
  replace(root, view.element);
  const stop = job.onStory((story) => view.show(story));
  const recolour = () => view.recolour();
  addEventListener("themechange", recolour);
  return () => {
    stop();
    removeEventListener("themechange", recolour);
  };
}

class TimelineView {
  constructor(job) {
    this.job = job;
    this.span = null; // null: everything
    this.follow = true; // the newest is at the right edge
    this.seen = [];
    this.tint = palette();
    const box = card("Timeline");
    this.note = box.note;
    this.canvas = h("canvas", { class: "lanes", tabindex: 0, role: "img", "aria-label": "Timeline", "aria-describedby": "timeline-keys" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.brush = new Brush((from, to) => this.look(from, to));
    const keys = h("p", { class: "hint", id: "timeline-keys" }, h("span", { class: "with-keys" }, "Wheel or + and − zoom, drag or ← → move, 0 shows everything, F follows the newest."), h("span", { class: "without-keys" }, "Drag to move; drag in the lower strip to choose a stretch."));
    replace(box.tools, legend("step", "again", "checkpoint", "savepoint", "failure"), choice("Stretch of time", SPANS, "all", (value) => this.choose(value)), this.zoomButtons());
    this.drawing = h("div", { class: "lanes-frame" }, this.canvas, this.tip);
    this.none = empty("Nothing has happened yet", "The first step appears here when it is sealed.");
    replace(box.body, this.drawing, this.brush.element, keys);
    this.list = this.eventCard();
    this.element = h("div", { class: "stack" }, box.section, this.list.section);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.drawing);
  }

  zoomButtons() {
    const button = (name, label, act) => h("button", { class: "button icon-only", type: "button", "aria-label": label, title: label, on: { click: act } }, icon(name));
    return h("div", { class: "group" }, button("plus", "Zoom in", () => this.zoom(0.6)), button("minus", "Zoom out", () => this.zoom(1 / 0.6)), button("fit", "Show everything", () => this.choose("all")));
  }

  eventCard() {
    const box = card("In view");
    const columns = [{ name: "When" }, { name: "What" }];
    const row = (one) => h("tr", { class: `event ${one.kind}` }, h("td", { class: "nowrap" }, time(one.at)), h("td", {}, h("span", { class: `swatch ${one.kind}` }), ` ${one.text}`));
    const table = new PagedTable({ label: "What happened in this stretch, newest first", columns, row, size: 15, wraps: true });
    replace(box.body, table.element);
    return { section: box.section, note: box.note, table };
  }

  recolour() {
    this.tint = palette();
    this.draw();
  }

  show(story) {
    this.story = story;
    story.endedAt = this.job.live ? null : this.job.summary?.ended_at ?? 0;
    this.draw();
  }

  get isEmpty() {
    const story = this.story;
    return !story || !(story.steps.length || story.checkpoints.length || story.starts.length || story.failures.length);
  }

  /** The stretch that is shown. */
  get range() {
    const whole = this.isEmpty ? null : this.story?.range;
    if (!whole) return null;
    const pad = Math.max(500, (whole[1] - whole[0]) * 0.01);
    const all = [whole[0] - pad, whole[1] + pad];
    if (!this.span) return all;
    return this.follow ? [all[1] - this.span, all[1]] : [this.from, this.from + this.span];
  }

  choose(value) {
    this.span = value === "all" ? null : Number(value);
    this.follow = true;
    this.draw();
  }

  look(from, to) {
    const whole = this.story?.range;
    if (!whole) return;
    this.span = Math.max(SHORTEST, to - from);
    this.from = from;
    this.follow = to >= whole[1];
    this.draw();
  }

  zoom(factor, share = 0.5) {
    const range = this.range;
    if (!range) return;
    const [from, to] = range;
    const at = from + (to - from) * share;
    const span = Math.max(SHORTEST, (to - from) * factor);
    const [low, high] = [this.story.range[0], this.story.range[1]];
    if (span >= (high - low) * 1.02) return this.choose("all");
    this.look(at - span * share, at + span * (1 - share));
  }

  move(share) {
    const range = this.range;
    if (!range || !this.span) return;
    const by = (range[1] - range[0]) * share;
    const [low, high] = this.story.range;
    const from = Math.min(Math.max(range[0] + by, low - this.span * 0.5), high - this.span * 0.5);
    this.look(from, from + this.span);
  }

  draw() {
    const range = this.range;
    const width = this.drawing.clientWidth;
    this.drawing.classList.toggle("is-empty", !range);
    this.brush.element.hidden = !range;
    this.list.section.hidden = !range;
    if (!range || !width) {
      if (this.story && !range && !this.none.isConnected) this.drawing.append(this.none);
      return;
    }
    this.none.remove();
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = null;
      this.paint(this.range, this.drawing.clientWidth);
    });
  }

  paint(range, width) {
    if (!range || !width) return;
    const density = devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * density)) {
      this.canvas.width = Math.round(width * density);
      this.canvas.height = Math.round(HEIGHT * density);
      this.canvas.style.setProperty("width", `${width}px`);
      this.canvas.style.setProperty("height", `${HEIGHT}px`);
    }
    const context = this.canvas.getContext("2d");
    context.setTransform(density, 0, 0, density, 0, 0);
    this.seen = paint(context, width, this.story, range, this.tint);
    this.brush.show(this.story, range, this.tint);
    say(this.note, `${clock(range[0])} to ${clock(range[1])}, ${duration(range[1] - range[0])}${this.span && this.follow ? ", following" : ""}`);
    this.canvas.setAttribute("aria-label", `Timeline from ${clock(range[0])} to ${clock(range[1])}: ${this.seen.length} events, listed below`);
    this.later ??= setTimeout(() => this.fillList(), 150); // not with each frame of a gesture, or each step of a busy job
  }

  fillList() {
    this.later = null;
    if (this.list.table.element.contains(document.activeElement)) return;
    const shown = [...this.seen].sort((a, b) => b.at - a.at);
    this.list.table.element.hidden = !shown.length;
    say(this.list.note, shown.length ? plural(shown.length, "event") : "nothing in this stretch");
    this.list.table.show(shown);
  }

  // -- wheel, drag, keys

  listen() {
    const { canvas } = this;
    const share = (event) => (event.clientX - canvas.getBoundingClientRect().left - GUTTER) / (canvas.clientWidth - GUTTER);
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const scale = event.deltaMode ? 0.05 : 0.0016;
        if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.move((event.deltaX || event.deltaY) * scale * 0.5);
        else this.zoom(Math.exp(event.deltaY * scale), Math.min(1, Math.max(0, share(event))));
      },
      { passive: false },
    );
    let grabbed = null;
    canvas.addEventListener("pointerdown", (event) => {
      grabbed = event.clientX;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener("pointermove", (event) => {
      if (grabbed === null) return this.hover(event);
      this.move((grabbed - event.clientX) / (canvas.clientWidth - GUTTER));
      grabbed = event.clientX;
    });
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, () => (grabbed = null));
    canvas.addEventListener("pointerleave", () => (this.tip.hidden = true));
    canvas.addEventListener("keydown", (event) => {
      if (event.key === "ArrowLeft") this.move(-0.2);
      else if (event.key === "ArrowRight") this.move(0.2);
      else if (event.key === "+" || event.key === "=") this.zoom(0.6);
      else if (event.key === "-") this.zoom(1 / 0.6);
      else if (event.key === "0") this.choose("all");
      else if (event.key.toLowerCase() === "f") this.choose(this.span ?? "all");
      else return;
      event.preventDefault();
    });
  }

  hover(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const hit = this.seen.findLast((one) => x >= one.x - 2 && x <= one.x + one.width + 2 && y >= one.y - 2 && y <= one.y + one.height + 2);
    this.tip.hidden = !hit;
    if (!hit) return;
    say(this.tip, `${time(hit.at)} · ${hit.text}`);
    const left = Math.max(0, Math.min(x + 12, box.width - this.tip.offsetWidth - 4));
    this.tip.style.setProperty("transform", `translate(${left}px, ${y + 16}px)`);
  }
}
