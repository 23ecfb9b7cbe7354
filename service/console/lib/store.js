/** What the page knows: who is signed in, the tasks, the chosen task's sources, and which of them shall answer. */

import { call, callAll, Problem } from "./api.js";

const LISTED = 100; // sources that the menu shows before more are asked for
const AT_ONCE = 4; // details that are asked for beside each other

/** Tells `change` whenever what is known has changed. */
export const store = new EventTarget();
export const state = empty();

function empty() {
  return {
    me: null,
    tasks: [],
    taskId: null,
    sources: [], // summaries, each with its `detail`, or null until that has come
    hasMore: false,
    most: LISTED,
    leftOut: new Set(), // what the reader unticked: whatever is new counts
    users: new Map(), // by id: all for admins, else yourself and your groups
    releases: [],
    hasLoaded: false,
  };
}

export const forgetAll = () => Object.assign(state, empty());

const changed = () => store.dispatchEvent(new Event("change"));

export const isAdmin = () => state.me?.role === "admin";
export const mayUpload = () => state.me !== null && state.me.role !== "predictor";
export const may = (source, right) => source.detail?.rights.includes(right) ?? false;
export const canAnswer = (source) => may(source, "use") && source.trained > 0;
export const task = () => state.tasks.find((one) => one.id === state.taskId) ?? null;
export const answering = () => state.sources.filter((source) => canAnswer(source) && !state.leftOut.has(source.id));
export const sourceName = (id) => state.sources.find((source) => source.id === id)?.name ?? null;

/** How a user is called: by name where that may be known. */
export function userName(id) {
  if (id === null) return "nobody";
  if (id === state.me?.id) return "you";
  return state.users.get(id)?.name ?? "somebody else";
}

/** Proves the token, and learns who one is. */
export async function meet() {
  const me = await call("GET", "users/me");
  await loadUsers();
  state.me = me;
}

export async function loadUsers() {
  const { rows } = await callAll("users");
  state.users = new Map(rows.map((user) => [user.id, user]));
  changed();
}

let latest = Promise.resolve();

/** Reads tasks, sources and releases anew, one look after the other; returns whether anything is different. */
export function refresh({ isThorough = false } = {}) {
  latest = latest.catch(() => {}).then(() => read(isThorough));
  return latest;
}

async function read(isThorough) {
  const { rows: tasks } = await callAll("tasks");
  if (!tasks.some((one) => one.id === state.taskId)) state.taskId = tasks[0]?.id ?? null;
  const taskId = state.taskId;
  const before = JSON.stringify([state.tasks, state.sources, state.releases, state.hasMore]);
  let found = { rows: [], isCut: false };
  let releases = [];
  if (taskId !== null) {
    found = await callAll("sources", { query: { task: taskId }, most: state.most });
    releases = (await callAll("releases", { query: { task: taskId } })).rows;
  }
  const sources = await withDetails(found.rows, isThorough);
  if (taskId !== state.taskId) return true; // another was chosen meanwhile, and its own look follows
  Object.assign(state, { tasks, sources, releases, hasMore: found.isCut });
  const isDifferent = before !== JSON.stringify([tasks, sources, releases, found.isCut]) || !state.hasLoaded;
  state.hasLoaded = true;
  if (isDifferent) changed();
  return isDifferent;
}

export function chooseTask(id) {
  Object.assign(state, { taskId: id, sources: [], releases: [], most: LISTED, hasLoaded: false });
  changed();
}

export function showMore() {
  state.most += LISTED;
}

export function tick(id, isTicked) {
  if (isTicked) state.leftOut.delete(id);
  else state.leftOut.add(id);
  changed();
}

export function tickAll(isTicked) {
  for (const source of state.sources.filter(canAnswer)) {
    if (isTicked) state.leftOut.delete(source.id);
    else state.leftOut.add(source.id);
  }
  changed();
}

/** The sources with what only their own page tells; what cannot have changed is not asked for again. */
async function withDetails(summaries, isThorough) {
  const known = new Map(state.sources.map((source) => [source.id, source]));
  const whole = summaries.map((summary) => ({ ...summary, detail: known.get(summary.id)?.detail ?? null }));
  const waiting = whole.filter((source) => {
    const last = known.get(source.id);
    const isSettled = source.trained === source.shards && last?.trained === source.trained;
    return isThorough || !source.detail || !isSettled || last.samples !== source.samples;
  });
  const gone = new Set();
  const work = async () => {
    for (let source = waiting.pop(); source; source = waiting.pop()) {
      try {
        source.detail = await call("GET", `sources/${source.id}`);
      } catch (error) {
        if (!(error instanceof Problem && error.status === 404)) throw error;
        gone.add(source.id); // between the list and this look
      }
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return whole.filter((source) => !gone.has(source.id));
}
