// Plots: a line with its area, points that can be hovered, walked by keys and clicked, and the sparkline.

import { h, replace, say, svg } from "../core/dom.js";
import { clock, fullTime } from "../core/format.js";

const MARGIN = { left: 58, right: 12, top: 10, bottom: 24 };

/** Round steps for an axis from 0 to ``most``: 1, 2 or 5 times a power of ten (of two, for bytes). */
export function ticks(most, wanted = 3, binary = false) {
  if (!(most > 0)) return [0];
  const rough = most / wanted;
  const base = binary ? 1024 ** Math.floor(Math.log2(Math.max(rough, 1)) / 10) : 10 ** Math.floor(Math.log10(rough));
  const steps = binary ? [1, 2, 5, 10, 20, 50, 100, 200, 500, 1024] : [1, 2, 5, 10];
  const step = base * (steps.find((one) => one * base >= rough) ?? 10);
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, index) => index * step);
}

/** One number over time. ``points``: ``{x, y, failed, text, id}``, by time. */
export class Plot {
  constructor({ title, format, binary = false, onPick = null }) {
    Object.assign(this, { title, format, binary, onPick, points: [], at: -1 });
    this.value = h("span", { class: "plot-value" });
    this.drawing = svg("svg", { class: "plot-drawing", role: "img", tabindex: 0 });
    this.element = h("figure", { class: "plot" }, h("figcaption", {}, h("span", { class: "plot-title" }, title), this.value), this.drawing);
    this.drawing.addEventListener("pointermove", (event) => this.hover(event));
    this.drawing.addEventListener("pointerleave", () => this.point(-1));
    this.drawing.addEventListener("blur", () => this.point(-1));
    this.drawing.addEventListener("click", () => this.at >= 0 && this.onPick?.(this.points[this.at]));
    this.drawing.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.draw()).observe(this.drawing);
  }

  show(points) {
    this.points = points;
    this.draw();
  }

  draw() {
    const { width, height } = this.drawing.getBoundingClientRect();
    if (width < 40) return;
    this.drawing.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.drawing.setAttribute("aria-label", this.describe());
    const points = this.points;
    if (!points.length) {
      replace(this.drawing, svg("text", { x: width / 2, y: height / 2, class: "plot-empty" }, "nothing yet"));
      return;
    }
    const [first, last] = [points[0].x, points.at(-1).x];
    const most = Math.max(...points.map((one) => one.y), 1e-9) * 1.08;
    const inner = width - MARGIN.left - MARGIN.right;
    const bottom = height - MARGIN.bottom;
    this.x = (value) => MARGIN.left + (last > first ? ((value - first) / (last - first)) * inner : inner / 2);
    this.y = (value) => bottom - (value / most) * (bottom - MARGIN.top);
    const good = points.filter((one) => !one.failed);
    const line = good.map((one, index) => `${index ? "L" : "M"}${this.x(one.x).toFixed(1)} ${this.y(one.y).toFixed(1)}`).join("");
    const area = good.length > 1 ? `${line}L${this.x(good.at(-1).x).toFixed(1)} ${bottom}L${this.x(good[0].x).toFixed(1)} ${bottom}Z` : "";
    const dots = good.length <= 60 ? good.map((one) => `M${this.x(one.x).toFixed(1)} ${this.y(one.y).toFixed(1)}h0`).join("") : "";
    const crosses = points.filter((one) => one.failed).map((one) => cross(this.x(one.x), this.y(one.y))).join("");
    const rows = ticks(most, 3, this.binary).map((value) => [
      svg("line", { x1: MARGIN.left, x2: width - MARGIN.right, y1: this.y(value), y2: this.y(value), class: "plot-grid" }),
      svg("text", { x: MARGIN.left - 8, y: this.y(value) + 4, class: "plot-tick end" }, this.format(value)),
    ]);
    const times = last > first ? [first, last] : [first];
    const labels = times.map((value, index) =>
      svg("text", { x: times.length === 1 ? this.x(value) : index ? width - MARGIN.right : MARGIN.left, y: height - 6, class: `plot-tick ${times.length === 1 ? "middle" : index ? "end" : ""}` }, clock(value)),
    );
    this.cursor = svg("g", { class: "plot-cursor" });
    replace(
      this.drawing,
      rows.flat(),
      labels,
      svg("path", { d: area, class: "plot-area" }),
      svg("path", { d: line, class: "plot-line" }),
      svg("path", { d: dots, class: "plot-dots" }),
      svg("path", { d: crosses, class: "plot-failed" }),
      this.cursor,
    );
    this.bottom = bottom;
    this.point(Math.min(this.at, points.length - 1));
  }

  describe() {
    if (!this.points.length) return `${this.title}: nothing yet`;
    const values = this.points.map((one) => one.y);
    const keys = this.onPick ? "; arrow keys go from one to the next, Enter opens it" : "";
    return `${this.title}: ${this.points.length} points, latest ${this.format(values.at(-1))}, highest ${this.format(Math.max(...values))}${keys}`;
  }

  hover(event) {
    if (!this.points.length || !this.x) return;
    const at = event.clientX - this.drawing.getBoundingClientRect().left;
    let [low, high] = [0, this.points.length - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.x(this.points[middle].x) < at) low = middle + 1;
      else high = middle;
    }
    if (low > 0 && at - this.x(this.points[low - 1].x) < this.x(this.points[low].x) - at) low--;
    this.point(low);
  }

  point(index) {
    this.at = index;
    const one = this.points[index];
    say(this.value, one ? `${one.text ? `${one.text} · ` : ""}${this.format(one.y)} · ${clock(one.x)}` : this.points.length ? `latest ${this.format(this.points.at(-1).y)}` : "");
    if (!this.cursor) return;
    if (!one) return replace(this.cursor);
    const [x, y] = [this.x(one.x), this.y(one.y)];
    replace(this.cursor, svg("line", { x1: x, x2: x, y1: MARGIN.top, y2: this.bottom }), svg("circle", { cx: x, cy: y, r: 4 }));
    this.drawing.setAttribute("aria-description", `${one.text ?? ""} ${this.format(one.y)} at ${fullTime(one.x)}`);
  }

  key(event) {
    const last = this.points.length - 1;
    const to = { ArrowLeft: Math.max(0, (this.at < 0 ? last + 1 : this.at) - 1), ArrowRight: Math.min(last, this.at + 1), Home: 0, End: last }[event.key];
    if (to !== undefined) this.point(to);
    else if (event.key === "Enter" && this.at >= 0) this.onPick?.(this.points[this.at]);
    else return;
    event.preventDefault();
  }
}

const cross = (x, y) => `M${(x - 3).toFixed(1)} ${(y - 3).toFixed(1)}l6 6m0 -6l-6 6`;

/** A line without axes, of the newest values. */
export class Sparkline {
  constructor(label, most = 120) {
    this.label = label;
    this.most = most;
    this.values = [];
    this.area = svg("path", { class: "spark-area" });
    this.line = svg("path", { class: "spark-line" });
    this.element = svg("svg", { class: "spark", viewBox: "0 0 200 40", preserveAspectRatio: "none", role: "img", "aria-label": label }, this.area, this.line);
  }

  begin(values) {
    this.values = values.slice(-this.most);
    this.draw();
  }

  add(value) {
    this.values.push(value);
    if (this.values.length > this.most) this.values.shift();
    this.draw();
  }

  draw() {
    const values = this.values;
    if (values.length < 2) return;
    const most = Math.max(...values, 1e-9);
    const step = 200 / (values.length - 1);
    const line = values.map((value, index) => `${index ? "L" : "M"}${(index * step).toFixed(1)} ${(37 - (value / most) * 33).toFixed(1)}`).join("");
    this.line.setAttribute("d", line);
    this.area.setAttribute("d", `${line}L200 40L0 40Z`);
  }
}
