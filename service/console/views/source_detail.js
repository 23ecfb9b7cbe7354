/** One source: what it holds, how each shard is doing, and what one may do with it. */

import { call } from "../lib/api.js";
import { openDialog } from "../components/dialog.js";
import { button, el, fill, name } from "../lib/dom.js";
import { confirmForgettingSource } from "./erase_dialog.js";
import { act, copy } from "../components/forms.js";
import { showGrants } from "./grants.js";
import { clearProblem, showProblem } from "../components/toasts.js";
import { poll } from "../lib/polling.js";
import { showSamples } from "./samples.js";
import { state, userName } from "../lib/store.js";
import { openAddition } from "./upload.js";
import { bytes, many, moment, RIGHTS, SHARD_STATES, wholePercent } from "../lib/format.js";

const READY = ["trained", "remote"];
const MOST_LABELS = 40;

export function openSource(id, look) {
  const known = state.sources.find((source) => source.id === id);
  const { body, close, signal } = openDialog(known?.name ?? "A source", { kind: "drawer" });
  const problem = el("div");
  const facts = el("div");
  const shards = el("div");
  const training = el("div");
  const actions = el("div");
  fill(body, problem, facts, shards, training, actions);
  let last = "";
  let rights = null;
  let latest = null;
  const changed = () => Promise.all([hurry(), look()]);

  const hurry = poll(
    async () => {
      let source;
      try {
        source = await call("GET", `sources/${id}`, { signal });
      } catch (error) {
        showProblem(problem, error);
        throw error;
      }
      clearProblem(problem);
      latest = source;
      const told = JSON.stringify(source);
      const isDifferent = told !== last;
      last = told;
      if (isDifferent) {
        fill(facts, showFacts(source));
        fill(shards, showShards(source));
        fill(training, source.rights.includes("manage") && showTraining(source, changed));
      }
      if (rights !== source.rights.join()) {
        rights = source.rights.join(); // only then, or what is being typed here would go
        fill(
          actions,
          showActions(() => latest, { look, close, changed }),
        );
      }
      return isDifferent;
    },
    { signal, patientMs: 10000 },
  );
  hurry();
}

function showFacts(source) {
  const task = state.tasks.find((one) => one.id === source.task_id);
  const shown = source.labels.slice(0, MOST_LABELS);
  const rest = source.labels.length - shown.length;
  const facts = [
    ["Task", name(task?.name ?? source.task_id)],
    ["Owner", name(userName(source.owner_id))],
    ["Since", moment(source.created_at)],
    [
      "Pictures",
      source.samples ? `${source.samples.toLocaleString("en")}, ${bytes(source.size_bytes)}` : "none kept here",
    ],
    [
      "You may",
      Object.keys(RIGHTS)
        .filter((right) => source.rights.includes(right))
        .map((right) => RIGHTS[right])
        .join(", "),
    ],
    ["Id", el("span", {}, el("code", {}, source.id), " ", copy(source.id))],
  ];
  return [
    el(
      "dl",
      { class: "facts" },
      facts.map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value))),
    ),
    source.labels.length > 0 && el("h3", {}, many(source.labels.length, "label")),
    source.labels.length > 0 &&
      el(
        "p",
        { class: "chips" },
        shown.map((label) => el("span", { class: "chip" }, name(label))),
        rest > 0 && ` and ${rest} more`,
      ),
  ];
}

function showShards(source) {
  const rows = source.shards.map((shard) =>
    el(
      "li",
      {},
      el("div", { class: "line" }, `Shard ${shard.number + 1}`, el("span", { class: "small quiet" }, say(shard))),
      !READY.includes(shard.state) &&
        el("progress", {
          max: "1",
          value: String(shard.progress),
          "aria-label": `Training of shard ${shard.number + 1}`,
        }),
      shard.error && el("p", { class: "small bad-text" }, shard.error),
    ),
  );
  const none = el(
    "p",
    { class: "empty" },
    "No shard yet: add pictures, or send a prompt that was trained elsewhere with `alacarte source push`.",
  );
  return [
    el("h3", {}, many(source.shards.length, "shard")),
    rows.length ? el("ul", { class: "plain-list" }, rows) : none,
  ];
}

function say(shard) {
  const words = [SHARD_STATES[shard.state]];
  if (shard.samples) words.unshift(many(shard.samples, "picture"));
  if (shard.state === "training") words.push(wholePercent(shard.progress), shard.worker ? `by ${shard.worker}` : "");
  if (shard.not_before) words.push(`not before ${moment(shard.not_before)}`);
  if (shard.generation > 1) words.push(`generation ${shard.generation}`);
  return words.filter(Boolean).join(" · ");
}

function showTraining(source, changed) {
  const states = new Set(source.shards.map((shard) => shard.state));
  const change = (what) => async () => {
    await call("POST", `sources/${source.id}/${what}`);
    await changed();
  };
  return el(
    "div",
    { class: "actions" },
    button("Add pictures", () => openAddition(source, changed)),
    ["waiting", "training", "backing off"].some((one) => states.has(one)) &&
      act("Stop training", null, change("cancel")),
    ["paused", "backing off"].some((one) => states.has(one)) && act("Resume training", null, change("resume")),
  );
}

/** What may be done, with the source as it is known at the moment of doing it. */
function showActions(current, { look, close, changed }) {
  const source = current();
  const mayManage = source.rights.includes("manage");
  const mayForget = source.rights.includes("forget");
  const forget = () =>
    confirmForgettingSource(current(), () => {
      close();
      return look();
    });
  return [
    mayManage && showGrants(source, look),
    (mayManage || mayForget) && showSamples(current, mayForget, changed),
    mayForget &&
      el(
        "section",
        { class: "danger-zone" },
        el("h3", {}, "Forget this source"),
        el("p", { class: "small quiet" }, "All of it, for everybody and for good, with a signed receipt."),
        button("Forget the source…", forget, { class: "danger" }),
      ),
  ];
}
