/** The page's state: the signed-in user, the tasks, the chosen task's sources, and which of them are selected. */

import { call, callAll, Problem } from "./api.js";

const PAGE_SOURCES = 100; // that the list shows before "Show more"
const PARALLEL_CALLS = 4; // for details of sources

/** Dispatches `change` whenever the state has changed. */
export const store = new EventTarget();
export const state = initialState();

function initialState() {
  return {
    me: null,
    tasks: [],
    taskId: null,
    sources: [], // summaries, each with its `detail`, which is null until it is loaded
    hasMore: false,
    maxSources: PAGE_SOURCES,
    excluded: new Set(), // ids of unticked sources; new sources are ticked
    users: new Map(), // by id: all users for admins, else yourself and your groups
    releases: [],
    hasLoaded: false,
  };
}

export const resetState = () => Object.assign(state, initialState());

const changed = () => store.dispatchEvent(new Event("change"));

export const isAdmin = () => state.me?.role === "admin";
export const mayUpload = () => state.me !== null && state.me.role !== "predictor";
export const may = (source, right) => source.detail?.rights.includes(right) ?? false;
export const isUsable = (source) => may(source, "use") && source.trained > 0;
export const isSelected = (source) => isUsable(source) && !state.excluded.has(source.id);
export const selectedSources = () => state.sources.filter(isSelected);
export const currentTask = () => state.tasks.find((task) => task.id === state.taskId) ?? null;
export const sourceName = (id) => state.sources.find((source) => source.id === id)?.name ?? null;

/** Returns a user's name, if the caller may know it. */
export function userName(id) {
  if (id === null) return "nobody";
  if (id === state.me?.id) return "you";
  return state.users.get(id)?.name ?? "another user";
}

/** Checks the token, and loads its user. */
export async function loadMe() {
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

/** Reads tasks, sources and releases, one call after the other; returns whether anything has changed. */
export function refresh({ withDetails = false } = {}) {
  latest = latest.catch(() => {}).then(() => read(withDetails));
  return latest;
}

async function read(withDetails) {
  const { rows: tasks } = await callAll("tasks");
  if (!tasks.some((task) => task.id === state.taskId)) state.taskId = tasks[0]?.id ?? null;
  const taskId = state.taskId;
  const before = JSON.stringify([state.tasks, state.sources, state.releases, state.hasMore]);
  let found = { rows: [], isCut: false };
  let releases = [];
  if (taskId !== null) {
    found = await callAll("sources", { query: { task: taskId }, limit: state.maxSources });
    releases = (await callAll("releases", { query: { task: taskId } })).rows;
  }
  const sources = await loadDetails(found.rows, withDetails);
  if (taskId !== state.taskId) return true; // another task was chosen meanwhile, and is read next
  Object.assign(state, { tasks, sources, releases, hasMore: found.isCut });
  const isDifferent = before !== JSON.stringify([tasks, sources, releases, found.isCut]) || !state.hasLoaded;
  state.hasLoaded = true;
  if (isDifferent) changed();
  return isDifferent;
}

export function chooseTask(id) {
  Object.assign(state, { taskId: id, sources: [], releases: [], maxSources: PAGE_SOURCES, hasLoaded: false });
  changed();
}

export function showMoreSources() {
  state.maxSources += PAGE_SOURCES;
}

/** Ticks or unticks sources. */
export function select(ids, isTicked) {
  for (const id of ids) {
    if (isTicked) state.excluded.delete(id);
    else state.excluded.add(id);
  }
  changed();
}

/** Adds to each source what only its own call returns; what cannot have changed is not read again. */
async function loadDetails(summaries, isForced) {
  const known = new Map(state.sources.map((source) => [source.id, source]));
  const sources = summaries.map((summary) => ({ ...summary, detail: known.get(summary.id)?.detail ?? null }));
  const waiting = sources.filter((source) => {
    const last = known.get(source.id);
    const isSettled = source.trained === source.shards && last?.trained === source.trained;
    return isForced || !source.detail || !isSettled || last.samples !== source.samples;
  });
  const gone = new Set();
  const loadWaiting = async () => {
    for (let source = waiting.pop(); source; source = waiting.pop()) {
      try {
        source.detail = await call("GET", `sources/${source.id}`);
      } catch (error) {
        if (!(error instanceof Problem && error.status === 404)) throw error;
        gone.add(source.id); // since the list was read
      }
    }
  };
  await Promise.all(Array.from({ length: PARALLEL_CALLS }, loadWaiting));
  return sources.filter((source) => !gone.has(source.id));
}
