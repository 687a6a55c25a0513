// The job graph: operators as cards that can be reached by keys, edges as curves under them.

import { h, icon, replace, say, svg } from "../core/dom.js";
import { NONE, bytes, count, percent, plural, rate, short, watermark } from "../core/format.js";
import { CARD, edgePath, layout } from "./layout.js";
import { PanZoom } from "./panzoom.js";

const LABELS = 80; // with more edges than this, their labels are shown only for the operator in focus
const WORDS = { HASH: "hash", REBALANCE: "rebalance", FORWARD: "forward", BROADCAST: "broadcast", RESCALE: "rescale", SHUFFLE: "shuffle", GLOBAL: "global" };

export class Graph {
  constructor(onSelect) {
    this.onSelect = onSelect;
    this.cards = new Map();
    this.shape = "";
    this.edges = [];
    this.selected = null;
    this.chains = h("div", { class: "graph-chains" });
    this.lines = svg("svg", { class: "graph-edges", "aria-hidden": "true" });
    this.operators = h("div", { class: "graph-operators", role: "group", "aria-label": "Operators of the job; arrow keys go from one to the next" });
    this.content = h("div", { class: "graph-content" }, this.chains, this.lines, this.operators);
    this.frame = h("div", { class: "graph-frame" }, this.content);
    this.element = h("div", { class: "graph" }, this.frame, this.controls());
    this.size = { width: 1, height: 1 };
    this.view = new PanZoom(this.frame, this.content, () => this.size, ({ k }) => {
      this.frame.classList.toggle("far", k < 0.55);
      this.frame.classList.toggle("farther", k < 0.3);
    });
    this.frame.addEventListener("keydown", (event) => this.key(event));
    this.frame.addEventListener("focusin", (event) => this.focused(event));
  }

  controls() {
    const button = (name, label, act) => h("button", { class: "button icon-only", type: "button", "aria-label": label, title: label, on: { click: act } }, icon(name));
    return h(
      "div",
      { class: "graph-controls", role: "group", "aria-label": "Zoom" },
      button("plus", "Zoom in", () => this.view.zoom(1.3)),
      button("minus", "Zoom out", () => this.view.zoom(1 / 1.3)),
      button("fit", "Show everything", () => this.view.fit()),
    );
  }

  /** Draws the graph if its shape is new, and puts the numbers in. */
  update(vertices, edges) {
    const shape = JSON.stringify([vertices.map((one) => [one.id, one.level, one.name]), edges]);
    if (shape !== this.shape) {
      this.shape = shape;
      this.draw(vertices, edges);
    }
    for (const vertex of vertices) this.cards.get(vertex.id)?.show(vertex);
  }

  draw(vertices, edges) {
    const { places, chains, width, height } = layout(vertices, edges);
    this.places = places;
    this.size = { width, height };
    this.cards.clear();
    replace(this.chains, chains.filter((chain) => chain.vertices.length > 1).map(chainBox));
    for (const [property, value] of [["width", `${width}px`], ["height", `${height}px`]]) {
      this.content.style.setProperty(property, value);
    }
    this.lines.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.lines.setAttribute("width", width);
    this.lines.setAttribute("height", height);
    this.edges = edges.filter(({ from, to }) => places.has(from) && places.has(to)).map((edge) => this.edge(edge));
    this.element.classList.toggle("many", edges.length > LABELS);
    this.frame.classList.toggle("tall", vertices.length > 60);
    replace(this.lines, arrow(), this.edges.map((edge) => edge.line), this.edges.map((edge) => edge.label));
    for (const vertex of vertices) this.cards.set(vertex.id, new Card(vertex, places.get(vertex.id), () => this.select(vertex.id)));
    replace(this.operators, [...this.cards.values()].map((card) => card.element));
    this.rove([...this.cards.keys()][0]);
    this.view.fit(true);
  }

  edge({ from, to, ship }) {
    const [start, end] = [this.places.get(from), this.places.get(to)];
    const { d, x, y } = edgePath(start, end);
    const inside = start.chain === end.chain;
    const line = svg("path", { d, class: inside ? "edge chained" : "edge", "marker-end": "url(#arrow)" });
    const label = svg("text", { x, y: y - 6, class: "edge-label" }, inside ? "" : WORDS[ship] ?? (ship ?? "").toLowerCase());
    return { from, to, line, label };
  }

  select(id) {
    this.selected = id;
    for (const [key, card] of this.cards) {
      card.element.classList.toggle("selected", key === id);
      card.element.setAttribute("aria-pressed", String(key === id));
    }
    this.light(id);
    this.onSelect(id);
  }

  /** Brings out an operator's own edges and neighbours. */
  light(id) {
    this.element.classList.toggle("lit", Boolean(id));
    for (const { from, to, line, label } of this.edges) {
      const near = id && (from === id || to === id);
      line.classList.toggle("near", Boolean(near));
      label.classList.toggle("near", Boolean(near));
    }
  }

  rove(id) {
    for (const [key, card] of this.cards) card.element.tabIndex = key === id ? 0 : -1;
  }

  focused(event) {
    const id = event.target.dataset?.id;
    const place = id && this.places.get(id);
    if (!place) return;
    this.rove(id);
    if (event.target.matches(":focus-visible")) this.view.reveal(place.x, place.y, CARD.width, CARD.height);
  }

  key(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (step && event.shiftKey) this.view.pan(-step[0] * 80, -step[1] * 80);
    else if (step) this.go(event.target.dataset.id, step);
    else if (event.key === "+" || event.key === "=") this.view.zoom(1.25);
    else if (event.key === "-") this.view.zoom(0.8);
    else if (event.key === "0") this.view.fit();
    else if (event.key === "Escape" && this.selected) this.select(null);
    else return;
    event.preventDefault();
  }

  /** To the nearest operator in that direction; what lies aside counts double. */
  go(id, [dx, dy]) {
    const from = this.places.get(id);
    if (!from) return;
    let best = null;
    let least = Infinity;
    for (const [key, place] of this.places) {
      const along = (place.x - from.x) * dx + (place.y - from.y) * dy;
      const aside = Math.abs((place.x - from.x) * dy) + Math.abs((place.y - from.y) * dx);
      if (along > 4 && along + 2 * aside < least) [best, least] = [key, along + 2 * aside];
    }
    this.cards.get(best)?.element.focus();
  }
}

class Card {
  constructor(vertex, place, onClick) {
    this.fill = h("span", { class: "op-fill" });
    this.busy = h("span", { class: "op-busy" });
    this.rates = h("span", { class: "op-rates" });
    this.facts = h("span", { class: "op-facts" });
    this.element = h(
      "button",
      { class: `op ${vertex.kind ?? "operator"}`, type: "button", "data-id": vertex.id, title: vertex.name, on: { click: onClick } },
      this.fill,
      h("span", { class: "op-head" }, h("span", { class: "op-name" }, vertex.name), h("span", { class: "op-parallelism" }, `×${vertex.parallelism ?? "?"}`)),
      h("span", { class: "op-line" }, this.rates, this.busy),
      this.facts,
    );
    this.element.style.setProperty("transform", `translate(${place.x}px, ${place.y}px)`);
  }

  show(vertex) {
    const busy = Math.min(1, Math.max(0, vertex.busy ?? 0));
    this.fill.style.setProperty("transform", `scaleX(${busy.toFixed(3)})`);
    this.element.classList.toggle("warm", busy >= 0.6 && busy < 0.85);
    this.element.classList.toggle("hot", busy >= 0.85);
    const [into, out] = [rate(vertex.records_in_per_second), rate(vertex.records_out_per_second)];
    say(this.rates, vertex.kind === "source" ? out : vertex.kind === "sink" ? into : `${into} → ${out}`);
    say(this.busy, vertex.busy == null ? "" : `${percent(busy)} busy`);
    const facts = factsOf(vertex);
    say(this.facts, facts);
    this.element.setAttribute("aria-label", `${vertex.name}, ${vertex.kind ?? "operator"}, parallelism ${count(vertex.parallelism)}, ${into} in, ${out} out, ${percent(vertex.busy)} busy, ${facts}`);
  }
}

function factsOf(vertex) {
  const facts = [];
  if (vertex.backlog) facts.push(`${short(vertex.backlog)} waiting`);
  if (vertex.keys) facts.push(vertex.keys === 1 ? "1 key" : `${short(vertex.keys)} keys`);
  if (vertex.state_bytes) facts.push(bytes(vertex.state_bytes));
  const mark = watermark(vertex.watermark);
  if (mark !== NONE && mark !== "none yet") facts.push(`wm ${mark}`);
  return facts.length ? facts.join(" · ") : plural(vertex.records_in || vertex.records_out || 0, "record");
}

function chainBox(chain) {
  const box = h("div", { class: "chain" });
  for (const [name, value] of [["transform", `translate(${chain.x}px, ${chain.y}px)`], ["width", `${chain.width}px`], ["height", `${chain.height}px`]]) {
    box.style.setProperty(name, value);
  }
  return box;
}

function arrow() {
  const marker = svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 6, refY: 4, markerWidth: 7, markerHeight: 7, markerUnits: "userSpaceOnUse", orient: "auto" });
  marker.append(svg("path", { d: "M0.5 0.8 7 4 0.5 7.2Z", class: "edge-head" }));
  return svg("defs", {}, marker);
}
