// How state is spread: over subtasks as bars, over key groups as a row of columns.

import { h, svg } from "../core/dom.js";
import { bytes, count, plural } from "../core/format.js";

export function subtaskBars(operator) {
  const all = operator.subtasks ?? [];
  if (!all.length) return null;
  const most = Math.max(1, ...all.map((one) => one.bytes));
  const mean = all.reduce((sum, one) => sum + one.bytes, 0) / all.length;
  const skew = mean ? Math.max(...all.map((one) => one.bytes)) / mean : 1;
  const rows = all.slice(0, 64).map((one) => {
    const bar = h("span", { class: "bar-fill" });
    bar.style.setProperty("transform", `scaleX(${one.bytes / most})`);
    const groups = one.first_key_group == null ? "" : `groups ${one.first_key_group}–${one.last_key_group}`;
    return h("li", {}, h("span", { class: "spread-name" }, `${one.subtask}`), h("span", { class: "bar" }, bar), h("span", { class: "spread-value" }, bytes(one.bytes)), h("span", { class: "spread-note" }, `${one.keys == null ? plural(one.entries, "entry", "entries") : plural(one.keys, "key")}${groups && ` · ${groups}`}`));
  });
  const said = all.length > 1 ? `the largest holds ${skew.toFixed(2)} × the mean` : "";
  return h("section", { class: "sub-section", "aria-label": "Spread over subtasks" }, h("h4", {}, "Over subtasks ", h("span", { class: "quiet" }, said)), h("ul", { class: "spread-list" }, rows));
}

export function groupBars(operator) {
  const groups = operator.key_groups;
  if (!groups?.bytes?.length) return null;
  const [width, height] = [Math.max(groups.bytes.length, 1), 60];
  const most = Math.max(1, ...groups.bytes);
  const columns = groups.bytes.map((size, index) => {
    const tall = Math.max(size ? 1.5 : 0, (size / most) * height);
    const first = index * groups.width;
    const name = groups.width > 1 ? `key groups ${first} to ${first + groups.width - 1}` : `key group ${first}`;
    return svg("rect", { x: index + 0.08, y: height - tall, width: 0.84, height: tall }, svg("title", {}, `${name}: ${bytes(size)}, ${plural(groups.entries[index], "entry", "entries")}`));
  });
  const filled = groups.bytes.filter(Boolean).length;
  const label = `${count(filled)} of ${count(groups.bytes.length)}${groups.width > 1 ? ` ranges of ${groups.width}` : ""} hold state, the largest ${bytes(most)}`;
  return h(
    "section",
    { class: "sub-section", "aria-label": "Spread over key groups" },
    h("h4", {}, "Over key groups ", h("span", { class: "quiet" }, label)),
    svg("svg", { class: "groups", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": label }, columns),
  );
}
