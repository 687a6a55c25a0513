// Numbers, sizes and times as people read them. What is not known is an en dash.

export const NONE = "–";
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

export function count(value) {
  return isNumber(value) ? Math.round(value).toLocaleString("en-US") : NONE;
}

/** At most four characters and a unit: 950, 1.25k, 31.4M. */
export function short(value) {
  if (!isNumber(value)) return NONE;
  const size = Math.abs(value);
  if (size < 999.5) return size < 9.95 && size % 1 ? value.toFixed(1) : String(Math.round(value));
  const units = ["k", "M", "G", "T", "P"];
  const power = Math.min(Math.floor(Math.log10((size * 1000) / 999.5) / 3), units.length); // 999.9M is 1.00G
  return rounded(value / 1000 ** power) + units[power - 1];
}

const rounded = (value) => value.toFixed(Math.abs(value) >= 99.95 ? 0 : Math.abs(value) >= 9.995 ? 1 : 2);

export const rate = (value) => (isNumber(value) ? `${short(value)}/s` : NONE);

export function bytes(value) {
  if (!isNumber(value)) return NONE;
  if (value < 1024) return `${Math.round(value)} B`;
  const units = ["KB", "MB", "GB", "TB", "PB"];
  const power = Math.min(Math.floor(Math.log2(value) / 10), units.length);
  return `${rounded(value / 1024 ** power)} ${units[power - 1]}`;
}

/** A length of time, of two units at most. */
export function duration(ms) {
  if (!isNumber(ms) || ms < 0) return NONE;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s < 10 ? s.toFixed(2) : s.toFixed(1)} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${two(s % 60)} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${two((s % 3600) / 60)} min`;
  return `${count(Math.floor(s / 86400))} d ${Math.floor((s % 86400) / 3600)} h`;
}

const two = (value) => String(Math.floor(value)).padStart(2, "0");

const LAST_DATE = 8.64e15;
export const isTime = (at) => isNumber(at) && at > 0 && at < LAST_DATE;

const clockOf = (at) => `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
const dayOf = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;

/** The time of day; with the date if it is not today's. */
export function time(at) {
  if (!isTime(at)) return NONE;
  const moment = new Date(at);
  return dayOf(moment) === dayOf(new Date()) ? clockOf(moment) : `${dayOf(moment)} ${clockOf(moment)}`;
}

export const clock = (at) => (isTime(at) ? clockOf(new Date(at)) : NONE);

export function fullTime(at) {
  if (!isTime(at)) return "";
  const moment = new Date(at);
  return `${dayOf(moment)} ${clockOf(moment)}.${String(moment.getMilliseconds()).padStart(3, "0")}`;
}

export function ago(at, now = Date.now()) {
  if (!isTime(at)) return NONE;
  const gone = Math.max(0, now - at);
  if (gone < 1500) return "just now";
  return gone < 60000 ? `${Math.round(gone / 1000)} s ago` : `${duration(gone)} ago`;
}

/** A watermark: the ends of its range have a meaning of their own. */
export function watermark(at) {
  if (at === null || at === undefined) return NONE;
  if (at >= LAST_DATE) return "end of input";
  if (at <= -LAST_DATE) return "none yet";
  return isTime(at) && at > 315532800000 ? time(at) : count(at);
}

export const percent = (share) => (isNumber(share) ? `${Math.round(share * 100)}%` : NONE);

export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

/** The end of a path, since that is where paths differ. */
export function tail(path, length = 46) {
  return path && path.length > length ? `…${path.slice(-(length - 1))}` : path ?? NONE;
}
