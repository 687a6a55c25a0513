// The story of a job: steps, checkpoints, failures, starts. Begun from the server's answer, continued by events.

const STEPS = 5000;

export class Story {
  constructor() {
    this.steps = [];
    this.checkpoints = [];
    this.failures = [];
    this.starts = [];
    this.statuses = [];
    this.highest = -1;
    this.endedAt = null; // null while the job runs
  }

  /** Takes the server's answer. Events that were heard before it came are in it. */
  begin(answer) {
    this.highest = -1;
    this.steps = [];
    this.checkpoints = [...(answer.checkpoints ?? [])].sort((a, b) => a.triggered_at - b.triggered_at);
    this.failures = [...(answer.failures ?? [])];
    this.starts = [...(answer.starts ?? [])];
    this.statuses = [...(answer.statuses ?? [])];
    for (const step of [...(answer.steps ?? [])].sort((a, b) => a.at - b.at)) this.addStep(step);
    return this;
  }

  /** A step that comes a second time was lost with a failed execution, and is re-run. */
  addStep(step) {
    const last = this.steps.at(-1);
    if (last && step.at <= last.at && this.steps.some((one) => one.at === step.at && one.step === step.step)) return false;
    const again = step.again ?? step.step <= this.highest;
    this.highest = Math.max(this.highest, step.step);
    this.steps.push({ ...step, again });
    if (this.steps.length > STEPS) this.steps.splice(0, this.steps.length - STEPS);
    return true;
  }

  /** Takes an event of the stream; false if it told nothing new. */
  hear({ type, data }) {
    if (type === "StepReport") return this.addStep(data);
    if (type === "CheckpointChanged") return this.checkpoint(data);
    if (type === "ExecutionFailed") return append(this.failures, data);
    if (type === "ExecutionStarted") return append(this.starts, data);
    if (type === "StatusChanged") return append(this.statuses, data);
    return false;
  }

  checkpoint(event) {
    const index = this.checkpoints.findLastIndex((one) => one.id === event.id && event.at >= one.triggered_at);
    const known = index >= 0 ? this.checkpoints[index] : { id: event.id, triggered_at: event.at, ended_at: null, status: "IN_PROGRESS" };
    const ends = { completed: "COMPLETED", published: "COMPLETED", failed: "FAILED" }[event.phase];
    const next = { ...known, type: event.type ?? known.type };
    if (ends) {
      next.status = ends;
      next.ended_at = known.ended_at ?? event.at;
      if (event.duration_ms != null) next.triggered_at = next.ended_at - event.duration_ms;
    }
    for (const name of ["size", "full_size", "path", "failure"]) if (event[name] != null) next[name] = event[name];
    if (index >= 0) this.checkpoints[index] = next;
    else this.checkpoints.push(next);
    return true;
  }

  get range() {
    const times = [
      ...edges(this.steps.map((step) => step.at - step.seconds * 1000)),
      ...edges(this.steps.map((step) => step.at)),
      ...edges(this.checkpoints.map((one) => one.triggered_at)),
      ...edges(this.checkpoints.map((one) => one.ended_at ?? one.triggered_at)),
      ...edges(this.failures.map((one) => one.at)),
      ...edges(this.starts.map((one) => one.at)),
      ...edges(this.statuses.map((one) => one.at)),
    ].filter(Number.isFinite);
    if (!times.length) return null;
    // While the job runs, time goes on without events.
    return [Math.min(...times), Math.max(...times, this.endedAt === null ? Date.now() : 0)];
  }
}

export const isSavepoint = (one) => /savepoint/i.test(one.type ?? "");

function edges(values) {
  let low = Infinity;
  let high = -Infinity;
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}

function append(list, event) {
  if (list.some((one) => one.at === event.at && one.attempt === event.attempt && one.status === event.status)) return false;
  list.push(event);
  return true;
}
