// What pages know of one job: answers that are asked for again from time to time, and the job's events as they come.
//
// A page says which paths it shows, how often they are to be asked for, and which events make them stale. Several parts
// of a page can share a path. Nothing is asked for while the page is hidden.

import { ApiError, Away, connection, events, get, offToken, onToken } from "./api.js";

const SOONEST = 700; // an answer that events made stale is not asked for more often than this, in milliseconds
const SHARE = 8;

class Resource {
  constructor(path) {
    this.path = path;
    this.watchers = new Set();
    this.data = undefined;
    this.error = null;
    this.asked = 0;
    this.timer = null;
    this.busy = false;
  }

  get every() {
    return Math.min(...[...this.watchers].map((watcher) => watcher.every));
  }

  plan(wait) {
    clearTimeout(this.timer);
    if (this.watchers.size && !document.hidden && Number.isFinite(wait)) this.timer = setTimeout(() => this.ask(), wait);
  }

  /** Events have made it stale: ask soon, but not for each of many events. */
  soon() {
    this.plan(Math.max(60, SOONEST - (Date.now() - this.asked)));
  }

  async ask() {
    if (this.busy || !this.watchers.size) return;
    clearTimeout(this.timer);
    this.busy = true;
    this.asked = Date.now();
    try {
      this.data = await get(this.path);
      this.error = null;
      this.tell();
    } catch (error) {
      if (error instanceof ApiError) {
        this.error = error;
        this.tell();
      } else if (!(error instanceof Away)) {
        throw error;
      }
    } finally {
      this.busy = false;
      // What takes long, because it is large or the machine is busy, is asked for less often.
      if (connection.state === "live") this.plan(Math.max(this.every, SHARE * (Date.now() - this.asked)));
    }
  }

  tell() {
    for (const watcher of [...this.watchers]) this.tellOne(watcher);
  }

  tellOne(watcher) {
    if (this.error) watcher.onError?.(this.error);
    else if (this.data !== undefined) watcher.onData(this.data);
  }
}

export class Feed {
  constructor() {
    this.eventsPath = null;
    this.resources = new Map();
    this.listeners = new Set();
    this.lastId = null;
    this.abort = null;
    this.closed = false;
    this.wake = () => (document.hidden ? this.pause() : this.resume());
    this.back = ({ state }) => state === "live" && this.wasAway && this.resume();
    this.note = ({ state }) => (this.wasAway = state === "away");
    this.known = () => this.resume();
    onToken(this.known);
    document.addEventListener("visibilitychange", this.wake);
    connection.listeners.add(this.back);
    connection.listeners.add(this.note);
  }

  /** From now on the job's events are heard; null for no longer. */
  follow(eventsPath) {
    if (eventsPath === this.eventsPath) return;
    this.eventsPath = eventsPath;
    this.abort?.abort();
    this.listen();
  }

  /** Shows ``path``: now if it is known, and again with each answer. Gives a function that ends it. */
  watch(path, { every = Infinity, on = [], onData, onError }) {
    const resource = this.resources.get(path) ?? new Resource(path);
    this.resources.set(path, resource);
    const watcher = { every, on, onData, onError };
    resource.watchers.add(watcher);
    resource.tellOne(watcher);
    if (!resource.busy && Date.now() - resource.asked > SOONEST) resource.ask();
    else if (!resource.busy) resource.plan(every);
    return () => {
      resource.watchers.delete(watcher);
      if (!resource.watchers.size) clearTimeout(resource.timer);
    };
  }

  /** Hears each event of the job. Gives a function that ends it. */
  hear(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  askAgain() {
    for (const resource of this.resources.values()) resource.ask();
  }

  pause() {
    for (const resource of this.resources.values()) clearTimeout(resource.timer);
    this.abort?.abort();
  }

  resume() {
    if (this.closed || document.hidden) return;
    this.askAgain();
    this.listen();
  }

  close() {
    this.closed = true;
    this.pause();
    for (const resource of this.resources.values()) resource.watchers.clear();
    document.removeEventListener("visibilitychange", this.wake);
    offToken(this.known);
    connection.listeners.delete(this.back);
    connection.listeners.delete(this.note);
  }

  async listen() {
    if (!this.eventsPath || this.closed || document.hidden) return;
    this.abort?.abort();
    const abort = (this.abort = new AbortController());
    let pause = 1000;
    while (!abort.signal.aborted) {
      try {
        await events(this.eventsPath, this.lastId, abort.signal, (event) => {
          pause = 1000;
          this.lastId = event.id ?? this.lastId;
          this.take(event);
        });
      } catch (error) {
        if (abort.signal.aborted) return;
        if (error instanceof ApiError && error.status < 500) return; // an ended job has no events
      }
      // The stream of a job ends with the job: whoever knows that the job has ended stops this loop.
      this.askAgain();
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(pause * 2, 15000);
    }
  }

  take(event) {
    for (const listener of [...this.listeners]) listener(event);
    for (const resource of this.resources.values()) {
      if ([...resource.watchers].some((watcher) => watcher.on.includes(event.type))) resource.soon();
    }
  }
}
