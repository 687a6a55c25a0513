// Draws a stretch of a job's story on a canvas: lanes for executions, steps, checkpoints and failures.

import { colours } from "../core/dom.js";
import { bytes, clock, duration, plural } from "../core/format.js";
import { isSavepoint } from "../core/story.js";

export const HEIGHT = 300;
export const GUTTER = 96;
const LANES = { life: [26, 20], steps: [64, 92], checkpoints: [176, 34], savepoints: [222, 22], failures: [258, 22] };
const TITLES = { life: "Execution", steps: "Steps", checkpoints: "Checkpoints", savepoints: "Savepoints", failures: "Failures" };
const STEPS = [1, 2, 5, 10, 20, 50, 100, 200, 500].concat([1, 2, 5, 10, 15, 30].map((s) => s * 1000), [1, 2, 5, 10, 15, 30].map((m) => m * 60000), [1, 2, 3, 6, 12, 24, 48, 168].map((hour) => hour * 3600000));

export function palette() {
  const names = ["ink", "ink-2", "line", "line-2", "accent", "again", "knot", "savepoint", "bad", "surface", "accent-soft"];
  const found = Object.fromEntries(colours(...names).map((value, index) => [names[index], value]));
  return { ...found, font: getComputedStyle(document.documentElement).fontFamily };
}

/** Paints ``story`` from ``from`` to ``to``. Gives what was painted, as ``{x, width, y, height, text, kind}``, for hovering. */
export function paint(context, width, story, [from, to], tint) {
  const inner = width - GUTTER - 8;
  const x = (at) => GUTTER + ((at - from) / (to - from)) * inner;
  const seen = [];
  context.clearRect(0, 0, width, HEIGHT);
  axis(context, width, [from, to], x, tint);
  context.save();
  context.beginPath();
  context.rect(GUTTER, 0, inner, HEIGHT);
  context.clip();
  lives(context, story, [from, to], x, tint, seen);
  steps(context, story, [from, to], x, tint, seen);
  snapshots(context, story, [from, to], x, tint, seen);
  failures(context, story, [from, to], x, tint, seen);
  context.restore();
  titles(context, tint);
  return seen;
}

function axis(context, width, [from, to], x, tint) {
  const wanted = (to - from) / Math.max(2, (width - GUTTER) / 110);
  const step = STEPS.find((one) => one >= wanted) ?? STEPS.at(-1);
  context.font = `11px ${tint.font}`;
  context.textAlign = "center";
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) {
    const place = Math.round(x(at)) + 0.5;
    context.strokeStyle = tint.line;
    context.beginPath();
    context.moveTo(place, 18);
    context.lineTo(place, HEIGHT);
    context.stroke();
    if (place < GUTTER + 24 || place > width - 26) continue;
    context.fillStyle = tint["ink-2"];
    context.fillText(step < 1000 ? `${clock(at)}.${String(Math.round(at % 1000)).padStart(3, "0")}` : clock(at), place, 12);
  }
}

function titles(context, tint) {
  context.textAlign = "left";
  context.font = `12px ${tint.font}`;
  context.fillStyle = tint["ink-2"];
  for (const [lane, [y, height]] of Object.entries(LANES)) context.fillText(TITLES[lane], 4, y + height / 2 + 4);
}

/** From each start of an execution to its failure, or to now. */
function lives(context, story, [from, to], x, tint, seen) {
  const [y, height] = LANES.life;
  const starts = [...story.starts].sort((a, b) => a.at - b.at);
  starts.forEach((start, index) => {
    const failure = story.failures.find((one) => one.at >= start.at && (!starts[index + 1] || one.at <= starts[index + 1].at));
    const end = failure?.at ?? starts[index + 1]?.at ?? story.endedAt ?? Math.max(to, Date.now());
    if (end < from || start.at > to) return;
    const [left, right] = [x(Math.max(start.at, from)), x(Math.min(end, to))];
    context.fillStyle = tint["accent-soft"];
    context.fillRect(left, y, Math.max(2, right - left), height);
    context.fillStyle = tint.accent;
    if (start.at >= from) context.fillRect(left, y, 2, height);
    const text = start.checkpoint == null ? `execution ${start.attempt}` : `execution ${start.attempt}, from checkpoint ${start.checkpoint}`;
    context.fillStyle = tint.ink;
    context.font = `11px ${tint.font}`;
    context.textAlign = "left";
    if (context.measureText(text).width < right - left - 12) context.fillText(text, left + 7, y + 14);
    seen.push({ x: left, width: right - left, y, height, at: start.at, kind: "start", text: `${text}, step ${start.step}, since ${clock(start.at)}` });
  });
}

function steps(context, story, [from, to], x, tint, seen) {
  const [y, height] = LANES.steps;
  const shown = story.steps.filter((step) => step.at >= from && step.at - step.seconds * 1000 <= to);
  const most = Math.max(1, ...shown.map((step) => step.records));
  for (const step of shown) {
    const left = x(step.at - step.seconds * 1000);
    const wide = Math.max(1.5, x(step.at) - left - 1);
    const tall = step.records ? 6 + (height - 6) * Math.sqrt(step.records / most) : 3; // one large step leaves the rest visible
    const again = step.again || step.tries > 1;
    context.fillStyle = again ? tint.again : tint.accent;
    context.globalAlpha = wide > 3 ? 0.85 : 1;
    context.fillRect(left, y + height - tall, wide, tall);
    context.globalAlpha = 1;
    const how = step.again ? ", run again after a failure" : step.tries > 1 ? `, ${step.tries} tries` : "";
    seen.push({ x: left, width: wide, y: y + height - tall, height: tall, at: step.at, kind: again ? "again" : "step", text: `step ${step.step}: ${plural(step.records, "record")} in ${duration(step.seconds * 1000)}, state ${bytes(step.state_bytes)}${how}` });
  }
  aroundSteps(context, story, x, to, tint, y + height - 8);
  context.strokeStyle = tint["line-2"];
  context.beginPath();
  context.moveTo(GUTTER, y + height + 0.5);
  context.lineTo(GUTTER + 1e5, y + height + 0.5);
  context.stroke();
}

/** Only the newest steps are remembered, and those of a driver that was killed went with it: an empty stretch does not
 *  mean that nothing ran. */
function aroundSteps(context, story, x, to, tint, y) {
  const [oldest, newest] = [story.steps[0], story.steps.at(-1)];
  if (!oldest) return;
  const note = (text, place, side, room) => {
    if (room < context.measureText(text).width + 8) return;
    context.textAlign = side;
    context.fillText(text, place, y);
  };
  context.font = `11px ${tint.font}`;
  context.fillStyle = tint["ink-2"];
  const [left, right] = [x(oldest.at - oldest.seconds * 1000) - 8, x(newest.at) + 8];
  if (story.starts.some((start) => start.step + 1 < oldest.step)) note("earlier steps are not kept", left, "right", left - GUTTER);
  if (story.checkpoints.some((one) => one.step > newest.step)) note("later steps are not kept", right, "left", x(to) - right);
}

function snapshots(context, story, [from, to], x, tint, seen) {
  for (const one of story.checkpoints) {
    const end = one.ended_at ?? Math.min(to, Date.now());
    if (end < from || one.triggered_at > to) continue;
    const saved = isSavepoint(one);
    const [y, height] = saved ? LANES.savepoints : LANES.checkpoints;
    const left = x(one.triggered_at);
    const wide = Math.max(2, x(end) - left);
    const failed = one.status === "FAILED";
    context.fillStyle = failed ? tint.bad : saved ? tint.savepoint : tint.knot;
    context.globalAlpha = one.status === "IN_PROGRESS" ? 0.45 : 0.9;
    context.fillRect(left, y, wide, height);
    context.globalAlpha = 1;
    const size = one.size != null ? `, ${bytes(one.size)} written` : "";
    const word = failed ? `failed${one.failure ? `: ${one.failure}` : ""}` : one.status === "IN_PROGRESS" ? "in progress" : `took ${duration(end - one.triggered_at)}`;
    seen.push({ x: left, width: wide, y, height, at: one.triggered_at, kind: failed ? "failed" : saved ? "savepoint" : "checkpoint", text: `${one.type ?? "checkpoint"} ${one.id} ${word}${size}` });
  }
}

function failures(context, story, [from, to], x, tint, seen) {
  const [y, height] = LANES.failures;
  for (const one of story.failures) {
    if (one.at < from || one.at > to) continue;
    const place = x(one.at);
    context.strokeStyle = tint.bad;
    context.globalAlpha = 0.35;
    context.beginPath();
    context.moveTo(place, LANES.life[0]);
    context.lineTo(place, y);
    context.stroke();
    context.globalAlpha = 1;
    context.lineWidth = 2;
    context.beginPath();
    context.moveTo(place - 5, y + 6);
    context.lineTo(place + 5, y + 16);
    context.moveTo(place + 5, y + 6);
    context.lineTo(place - 5, y + 16);
    context.stroke();
    context.lineWidth = 1;
    const next = one.restarted_from ? `; went on from ${one.restarted_from}` : "";
    seen.push({ x: place - 7, width: 14, y, height, at: one.at, kind: "failure", text: `execution ${one.attempt} failed: ${one.error}${next}` });
  }
}
