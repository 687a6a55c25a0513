// Talks to the driver: requests, the token, and whether the driver answers at all.

const KEPT = "beadline.token";
const PAUSES = [1000, 1000, 2000, 3000, 5000];
const PATIENCE = 15000;

/** What the server answered, when it was not what was asked for. */
export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** No answer: the driver has ended, or is not reached. */
export class Away extends Error {}

// -- the token

function takeToken() {
  const found = /(?:^#|[&?])token=([^&]+)/.exec(location.hash);
  if (!found) return;
  keepToken(decodeURIComponent(found[1]));
  const rest = location.hash.replace(/[&?]?token=[^&]+/, "");
  history.replaceState(null, "", location.pathname + (rest.length > 1 ? rest : "#/"));
}

export function keepToken(token) {
  try {
    sessionStorage.setItem(KEPT, token);
  } catch {
    memory = token;
  }
  for (const listener of tokenListeners) listener();
}

let memory = null;
let free = false;
const tokenListeners = new Set();

function token() {
  try {
    return sessionStorage.getItem(KEPT) ?? memory;
  } catch {
    return memory;
  }
}

/** Whether buttons that change something can work: a token is there, or the driver wants none. */
export const mayChange = () => free || Boolean(token());
export const onToken = (listener) => tokenListeners.add(listener);
export const offToken = (listener) => tokenListeners.delete(listener);

export function needsNoToken() {
  if (free) return;
  free = true;
  for (const listener of tokenListeners) listener();
}

takeToken();
addEventListener("hashchange", takeToken);

// -- whether the driver is there

export const connection = { state: "connecting", since: Date.now(), next: null, listeners: new Set() };

function become(state) {
  if (connection.state !== state) {
    connection.state = state;
    connection.since = Date.now();
    connection.next = null;
  }
  for (const listener of connection.listeners) listener(connection);
}

let tries = 0;
let timer = null;

function away() {
  if (timer !== null) return;
  const pause = PAUSES[Math.min(tries++, PAUSES.length - 1)];
  become("away");
  connection.next = Date.now() + pause;
  timer = setTimeout(tryNow, pause);
}

/** Asks whether the driver is there again; it is asked by itself, at growing intervals. */
export async function tryNow() {
  clearTimeout(timer);
  timer = null;
  if (document.hidden) return;
  try {
    await get("/config");
  } catch (error) {
    if (!(error instanceof Away)) reached();
  }
}

document.addEventListener("visibilitychange", () => {
  if (!document.hidden && connection.state === "away") tryNow();
});

function reached() {
  tries = 0;
  if (connection.state !== "live") become("live");
}

// -- requests

function headers(more) {
  const known = token();
  return known ? { ...more, Authorization: `Bearer ${known}` } : { ...more };
}

async function send(path, options, patience = PATIENCE) {
  let answer;
  try {
    answer = await fetch(path, { ...options, headers: headers(options.headers), signal: AbortSignal.timeout(patience) });
  } catch (error) {
    away();
    throw new Away(`no answer from the driver at ${location.host}: ${error.message}`);
  }
  reached();
  const text = await answer.text().catch(() => "");
  let data = null;
  try {
    data = text ? JSON.parse(text) : null;
  } catch {
    data = null;
  }
  if (!answer.ok) {
    const said = data?.errors?.join("; ") ?? data?.detail ?? text.slice(0, 300);
    throw new ApiError(answer.status, said || `${answer.status} ${answer.statusText}`);
  }
  return data;
}

export const get = (path) => send(path, { method: "GET" });
export const change = (method, path, body) =>
  send(path, { method, headers: { "Content-Type": "application/json" }, body: body === undefined ? undefined : JSON.stringify(body) }, 60000);

/** Server-sent events, read with fetch: unlike EventSource it can send the token. Ends when the stream does. */
export async function events(path, lastId, signal, onEvent) {
  const more = lastId ? { Accept: "text/event-stream", "Last-Event-ID": lastId } : { Accept: "text/event-stream" };
  const answer = await fetch(path, { headers: headers(more), signal });
  if (!answer.ok) throw new ApiError(answer.status, `events: ${answer.status}`);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    buffer = (buffer + value).replaceAll("\r\n", "\n");
    let end;
    while ((end = buffer.indexOf("\n\n")) >= 0) {
      const event = parse(buffer.slice(0, end));
      buffer = buffer.slice(end + 2);
      if (event) onEvent(event);
    }
  }
}

function parse(block) {
  const event = { type: "message", id: null, data: "" };
  for (const line of block.split("\n")) {
    if (line.startsWith("event:")) event.type = line.slice(6).trim();
    else if (line.startsWith("id:")) event.id = line.slice(3).trim();
    else if (line.startsWith("data:")) event.data += line.slice(5).trimStart();
  }
  if (!event.data) return null;
  try {
    event.data = JSON.parse(event.data);
  } catch {
    return null;
  }
  return event;
}
