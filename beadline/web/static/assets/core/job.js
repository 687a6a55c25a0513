// One job as its pages share it: the feed, the summary, the story, the header with its buttons.

import { ApiError } from "./api.js";
import { Feed } from "./feed.js";
import { Story } from "./story.js";

const ENDED = new Set(["FINISHED", "FAILED", "CANCELED", "SUSPENDED"]);

export class Job {
  constructor(id) {
    this.id = id;
    this.path = `/jobs/${encodeURIComponent(id)}`;
    this.feed = new Feed();
    this.summary = null;
    this.story = null;
    this.error = null;
    this.summaryListeners = new Set();
    this.storyListeners = new Set();
    this.feed.hear((event) => this.hear(event));
    this.feed.watch(`${this.path}/beadline`, {
      every: 1500,
      on: ["StatusChanged", "ExecutionFailed", "ExecutionStarted"],
      onData: (summary) => this.take(summary),
      onError: (error) => this.fail(error),
    });
  }

  /** Whether it may still change. */
  get live() {
    return !this.summary || !ENDED.has(this.summary.state);
  }

  take(summary) {
    const was = this.live;
    this.summary = summary;
    this.error = null;
    this.feed.follow(this.live ? `${this.path}/beadline/events` : null);
    for (const listener of [...this.summaryListeners]) listener(summary, null);
    if (was && !this.live) this.feed.askAgain(); // the last numbers
  }

  fail(error) {
    this.error = error;
    for (const listener of [...this.summaryListeners]) listener(null, error);
  }

  hear(event) {
    if (this.story?.hear(event)) this.tellStory();
    // The stream begins with events of the past, which the summary knows already.
    const isNews = this.summary && event.data.at >= this.summary.now;
    if (event.type === "StatusChanged" && isNews) this.take({ ...this.summary, state: event.data.status });
  }

  /** Hears the headline numbers, with each answer. */
  onSummary(listener) {
    const filtered = (summary) => summary && listener(summary);
    this.summaryListeners.add(filtered);
    if (this.summary) listener(this.summary);
    return () => this.summaryListeners.delete(filtered);
  }

  /** Asks for settings, if they are known: those of a job whose driver was killed are not. */
  withSettings(ask, otherwise) {
    let [stop, asked] = [null, false];
    const quiet = this.onSummary((summary) => {
      if (asked) return;
      asked = true;
      if (summary.settings_known === false) otherwise();
      else stop = ask();
    });
    return () => {
      quiet();
      stop?.();
    };
  }

  /** Hears the story: as the server tells it, then with each event. */
  onStory(listener) {
    this.storyListeners.add(listener);
    if (this.story) listener(this.story);
    const stop = this.feed.watch(`${this.path}/beadline/timeline`, {
      every: 30000,
      on: ["ExecutionStarted"],
      onData: (answer) => {
        this.story = new Story().begin(answer);
        this.tellStory();
      },
      onError: (error) => error instanceof ApiError && listener(new Story()),
    });
    return () => {
      stop();
      this.storyListeners.delete(listener);
    };
  }

  /** At most once per frame, however many events come. */
  tellStory() {
    if (this.telling) return;
    this.telling = true;
    requestAnimationFrame(() => {
      this.telling = false;
      for (const listener of [...this.storyListeners]) listener(this.story);
    });
  }

  close() {
    this.feed.close();
  }
}
