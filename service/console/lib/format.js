/** Formats numbers, times and states as text. */

export const percent = (share) => `${(100 * share).toFixed(1)} %`;

export const wholePercent = (share) => `${Math.floor(100 * share)} %`;

export const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

export const short = (id) => id.slice(0, 8);

export function bytes(count) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  let at = 0;
  while (count >= 1000 && at < units.length - 1) {
    count /= 1000;
    at += 1;
  }
  return `${at && count < 10 ? count.toFixed(1) : Math.round(count)} ${units[at]}`;
}

export const time = (text) => new Date(text).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });

/** The steps of an erasure, by their names in the receipt. */
export const STEPS = {
  unserve: "No prediction uses it",
  objects: "Pictures and prompts are deleted from the store",
  write_claims: "No process works with its files",
  memory: "Every replica has dropped it from memory",
  rows: "Rows are deleted and wiped from the database",
  verify: "Everything is verified",
};

export const SHARD_STATES = {
  waiting: "waiting for a worker",
  training: "training",
  "backing off": "failed, will retry",
  paused: "paused",
  trained: "ready",
  remote: "ready, trained elsewhere",
};

export const RIGHTS = { use: "use it for predictions", manage: "manage it", forget: "forget it" };

/** Returns the state of a source as text, and a kind that sets its colour. */
export function sourceState(summary, detail) {
  if (!summary.shards) return { text: "empty", kind: "idle" };
  if (summary.trained >= summary.shards) return { text: "ready", kind: "good" };
  const states = new Set((detail?.shards ?? []).map((shard) => shard.state));
  if (states.has("training")) return { text: `training ${wholePercent(detail.progress)}`, kind: "busy" };
  if (states.has("backing off")) return { text: SHARD_STATES["backing off"], kind: "bad" };
  if (states.has("paused")) return { text: "paused", kind: "idle" };
  return { text: SHARD_STATES.waiting, kind: "busy" };
}
