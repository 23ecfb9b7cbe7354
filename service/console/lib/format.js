/** How numbers, moments and states are said. */

export const percent = (share) => `${(100 * share).toFixed(1)} %`;

export const wholePercent = (share) => `${Math.floor(100 * share)} %`;

export const many = (count, one, several = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : several}`;

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

export function moment(text) {
  return new Date(text).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

/** The steps of an erasure, as they stand in its receipt, in words. */
export const STEPS = {
  unserve: "No answer uses it any more",
  objects: "Its pictures and prompts are removed from the store",
  write_claims: "No process works with its files any more",
  memory: "Every replica has dropped it from memory",
  rows: "Its rows are deleted, and their place in the database is scrubbed",
  verify: "Everything was verified once more",
};

export const SHARD_STATES = {
  waiting: "waits for a worker",
  training: "is trained",
  "backing off": "failed, and is tried again",
  paused: "paused",
  trained: "ready",
  remote: "ready, trained elsewhere",
};

export const RIGHTS = { use: "use it for answers", manage: "manage it", forget: "have it forgotten" };

/** The state of a whole source, as the menu shows it: a word, and a kind that gives it its colour. */
export function stateOf(summary, detail) {
  if (!summary.shards) return { word: "empty", kind: "idle" };
  if (summary.trained >= summary.shards) return { word: "ready", kind: "good" };
  const states = new Set((detail?.shards ?? []).map((shard) => shard.state));
  if (states.has("training")) return { word: `training ${wholePercent(detail.progress)}`, kind: "busy" };
  if (states.has("backing off")) return { word: "failed, tries again", kind: "bad" };
  if (states.has("paused")) return { word: "paused", kind: "idle" };
  return { word: "waits for a worker", kind: "busy" };
}
