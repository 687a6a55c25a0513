// The whole story in small; dragging over it chooses the stretch that the timeline shows.

import { h } from "../core/dom.js";
import { clock } from "../core/format.js";

const HEIGHT = 46;

export class Brush {
  constructor(onChoose) {
    this.onChoose = onChoose;
    this.canvas = h("canvas", { class: "brush-canvas" });
    this.window = h("div", { class: "brush-window" });
    this.element = h("div", { class: "brush", role: "slider", tabindex: 0, "aria-label": "Stretch of time that is shown", "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": 100 }, this.canvas, this.window);
    this.listen();
  }

  show(story, range, tint) {
    const width = this.element.clientWidth;
    const whole = story.range;
    if (!width || !whole) return;
    this.whole = whole[1] > whole[0] ? whole : [whole[0], whole[0] + 1];
    this.range = range;
    const x = (at) => ((at - this.whole[0]) / (this.whole[1] - this.whole[0])) * width;
    this.paint(story, x, width, tint);
    const [left, right] = [Math.max(0, x(range[0])), Math.min(width, x(range[1]))];
    this.window.style.setProperty("transform", `translateX(${left}px)`);
    this.window.style.setProperty("width", `${Math.max(6, right - left)}px`);
    this.element.setAttribute("aria-valuenow", Math.round((right / width) * 100));
    this.element.setAttribute("aria-valuetext", `${clock(range[0])} to ${clock(range[1])}`);
  }

  paint(story, x, width, tint) {
    const density = devicePixelRatio || 1;
    this.canvas.width = Math.round(width * density);
    this.canvas.height = Math.round(HEIGHT * density);
    const context = this.canvas.getContext("2d");
    context.setTransform(density, 0, 0, density, 0, 0);
    const columns = new Float64Array(Math.ceil(width / 3));
    for (const step of story.steps) columns[Math.min(columns.length - 1, Math.max(0, Math.floor(x(step.at) / 3)))] += step.records;
    const most = Math.max(1, ...columns);
    context.fillStyle = tint.accent;
    columns.forEach((records, index) => {
      const tall = (HEIGHT - 12) * Math.sqrt(records / most);
      if (records) context.fillRect(index * 3, HEIGHT - 4 - tall, 2, tall + 1);
    });
    context.fillStyle = tint.knot;
    for (const one of story.checkpoints) context.fillRect(x(one.triggered_at), HEIGHT - 3, 2, 3);
    context.fillStyle = tint.bad;
    for (const one of story.failures) context.fillRect(x(one.at) - 1, 0, 2, HEIGHT);
  }

  listen() {
    let start = null;
    const at = (event) => {
      const box = this.element.getBoundingClientRect();
      const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
      return this.whole[0] + share * (this.whole[1] - this.whole[0]);
    };
    this.element.addEventListener("pointerdown", (event) => {
      if (!this.whole) return;
      start = at(event);
      this.element.setPointerCapture(event.pointerId);
    });
    this.element.addEventListener("pointermove", (event) => {
      if (start === null) return;
      const [from, to] = [Math.min(start, at(event)), Math.max(start, at(event))];
      if (to - from > (this.whole[1] - this.whole[0]) / 400) this.onChoose(from, to);
    });
    this.element.addEventListener("pointerup", (event) => {
      if (start === null) return;
      const end = at(event);
      const span = this.range[1] - this.range[0];
      // A click without a drag moves the stretch there.
      if (Math.abs(end - start) <= (this.whole[1] - this.whole[0]) / 400) this.onChoose(end - span / 2, end + span / 2);
      start = null;
    });
    this.element.addEventListener("pointercancel", () => (start = null));
    this.element.addEventListener("keydown", (event) => {
      const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!way || !this.range) return;
      event.preventDefault();
      const [from, to] = this.range;
      this.onChoose(from + (way * (to - from)) / 5, to + (way * (to - from)) / 5);
    });
  }
}
