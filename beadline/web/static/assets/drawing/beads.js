// The bead line: the newest steps as beads on a thread, checkpoints as knots, failures where the thread is torn.

import { calm, h, replace, svg } from "../core/dom.js";
import { bytes, clock, duration, plural } from "../core/format.js";
import { isSavepoint } from "../core/story.js";

const SPACE = 22;
const END = 6;
const HEIGHT = 64;
const PAUSE = 700; // milliseconds
const MIDDLE = 30;

export class BeadLine {
  constructor() {
    this.drawing = svg("svg", { class: "beads", role: "img" });
    this.element = h("div", { class: "beads-frame" }, this.drawing);
    this.newest = null;
    new ResizeObserver(() => this.story && this.show(this.story)).observe(this.element);
  }

  show(story) {
    this.story = story;
    const width = this.element.clientWidth;
    if (!width) return;
    const beads = sequence(story).slice(-Math.max(4, Math.floor((width - END) / SPACE)));
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.drawing.setAttribute("aria-label", describe(beads));
    if (!beads.length) {
      replace(this.drawing, line(0, width), svg("text", { x: width / 2, y: HEIGHT - 8, class: "beads-mark" }, "the first step appears here when it is sealed"));
      return;
    }
    const most = Math.max(1, ...beads.map((bead) => bead.records ?? 0));
    const start = width - END - beads.length * SPACE;
    const thread = [];
    let from = 0;
    const drawn = beads.map((bead, index) => {
      const x = start + (index + 0.5) * SPACE;
      if (bead.kind === "failure") {
        thread.push(line(from, x - 7));
        from = x + 7;
      }
      return draw(bead, x, most);
    });
    thread.push(line(from, width));
    const latest = beads.at(-1);
    const group = svg("g", { class: this.moves(latest) ? "beads-group sliding" : "beads-group" }, drawn);
    replace(this.drawing, thread, group, marks(beads, start));
    this.newest = latest?.key;
  }

  moves(latest) {
    if (!this.newest || !latest || latest.key === this.newest || calm()) return false;
    // Steps that come in quick succession would only jerk.
    const [before, now] = [this.movedAt ?? 0, Date.now()];
    this.movedAt = now;
    return now - before > PAUSE;
  }
}

const line = (from, to) => svg("line", { x1: from, x2: Math.max(from, to), y1: MIDDLE, y2: MIDDLE, class: "beads-thread" });

/** Steps and what happened between them, in the order of time. */
function sequence(story) {
  const steps = story.steps.slice(-200).map((step) => ({ ...step, kind: "step", time: step.at, key: `s${step.step}-${step.at}` }));
  const since = steps.length ? steps[0].at : 0;
  const knots = story.checkpoints
    .filter((one) => one.ended_at && one.ended_at >= since)
    .map((one) => ({ ...one, kind: one.status === "FAILED" ? "unmade" : isSavepoint(one) ? "savepoint" : "checkpoint", time: one.ended_at, key: `c${one.id}-${one.ended_at}` }));
  const torn = story.failures.filter((one) => one.at >= since).map((one) => ({ ...one, kind: "failure", time: one.at, key: `f${one.at}` }));
  return [...steps, ...knots, ...torn].sort((a, b) => a.time - b.time);
}

function draw(bead, x, most) {
  const title = svg("title", {}, tell(bead));
  if (bead.kind === "failure") return svg("g", { class: "bead failure" }, svg("path", { d: `M${x - 5} ${MIDDLE - 5}l10 10m0 -10l-10 10` }), title);
  if (bead.kind !== "step") {
    return svg("g", { class: `bead ${bead.kind}` }, svg("path", { d: `M${x} ${MIDDLE - 6.5}l6.5 6.5l-6.5 6.5l-6.5 -6.5Z` }), title);
  }
  const again = bead.again || bead.tries > 1;
  const radius = bead.records ? 3.4 + 6 * Math.sqrt(bead.records / most) : 2.6;
  return svg("g", { class: again ? "bead step again" : "bead step" }, svg("circle", { cx: x, cy: MIDDLE, r: radius.toFixed(1) }), title);
}

function marks(beads, start) {
  const labels = [];
  let last = -Infinity;
  beads.forEach((bead, index) => {
    const x = start + (index + 0.5) * SPACE;
    if (bead.kind !== "step" || x - last < 130 || x < 66) return;
    last = x;
    labels.push(svg("text", { x, y: HEIGHT - 5, class: "beads-mark" }, `step ${bead.step} · ${clock(bead.at)}`));
  });
  if (labels.length > 1 && last + 62 > start + beads.length * SPACE) labels.pop();
  return labels;
}

function tell(bead) {
  if (bead.kind === "failure") return `${clock(bead.at)}: execution ${bead.attempt} failed: ${bead.error}`;
  if (bead.kind === "unmade") return `${bead.type ?? "checkpoint"} ${bead.id} failed at ${clock(bead.ended_at)}`;
  if (bead.kind !== "step") return `${bead.type ?? "checkpoint"} ${bead.id}, ${duration(bead.ended_at - bead.triggered_at)}, ${clock(bead.ended_at)}`;
  const again = bead.again ? ", run again after a failure" : bead.tries > 1 ? `, ${bead.tries} tries` : "";
  return `step ${bead.step}: ${plural(bead.records, "record")} in ${duration(bead.seconds * 1000)}, state ${bytes(bead.state_bytes)}, ${clock(bead.at)}${again}`;
}

function describe(beads) {
  const of = (kind) => beads.filter((bead) => bead.kind === kind).length;
  return `The newest ${plural(of("step"), "step")}, with ${plural(of("checkpoint"), "checkpoint")}, ${plural(of("savepoint"), "savepoint")} and ${plural(of("failure"), "failure")} among them`;
}

export function legend(...kinds) {
  const words = { step: "step", again: "run again", checkpoint: "checkpoint", savepoint: "savepoint", failure: "failure" };
  return h("ul", { class: "legend", "aria-label": "Legend" }, kinds.map((kind) => h("li", {}, h("span", { class: `swatch ${kind}` }), words[kind])));
}
