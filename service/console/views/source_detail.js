/** One source: its properties, its shards, and the actions that the user may take. */

import { call } from "../lib/api.js";
import { button, el, empty, fill, muted, name } from "../lib/dom.js";
import { bytes, plural, RIGHTS, SHARD_STATES, time, wholePercent } from "../lib/format.js";
import { state, userName } from "../lib/store.js";
import { openDialog } from "../components/dialog.js";
import { actionButton, copyButton } from "../components/forms.js";
import { watch } from "../components/remote_data.js";
import { confirmEraseSource } from "./erase_dialog.js";
import { showGrants } from "./grants.js";
import { showSamples } from "./samples.js";
import { openAddPictures } from "./upload.js";

const READY = ["trained", "remote"];
const MAX_LABELS = 40;

export function openSource(id, reload) {
  const known = state.sources.find((source) => source.id === id);
  const { body, close, signal } = openDialog(known?.name ?? "Source", { kind: "drawer" });
  const [problem, properties, shards, training, actions] = Array.from({ length: 5 }, () => el("div"));
  fill(body, problem, properties, shards, training, actions);
  let rights = null;
  let latest = null;
  const reloadAll = () => Promise.all([pollNow(), reload()]);

  function draw(source) {
    latest = source;
    fill(properties, showProperties(source));
    fill(shards, showShards(source));
    fill(training, source.rights.includes("manage") && showTraining(source, reloadAll));
    if (rights === source.rights.join()) return;
    rights = source.rights.join(); // the actions are drawn only now, else what is being typed would be lost
    fill(
      actions,
      showActions(() => latest, { reload, close, reloadAll }),
    );
  }

  const read = () => call("GET", `sources/${id}`, { signal });
  const pollNow = watch(read, draw, { problem, signal, maxMs: 10000 });
}

function showProperties(source) {
  const task = state.tasks.find((one) => one.id === source.task_id);
  const labels = source.labels.slice(0, MAX_LABELS);
  const more = source.labels.length - labels.length;
  const count = source.samples ? `${source.samples.toLocaleString("en")}, ${bytes(source.size_bytes)}` : "none stored";
  const rights = Object.keys(RIGHTS).filter((right) => source.rights.includes(right));
  const properties = [
    ["Task", name(task?.name ?? source.task_id)],
    ["Owner", name(userName(source.owner_id))],
    ["Created", time(source.created_at)],
    ["Pictures", count],
    ["You may", rights.map((right) => RIGHTS[right]).join(", ")],
    ["Id", el("span", {}, el("code", {}, source.id), " ", copyButton(source.id))],
  ];
  return [
    el(
      "dl",
      { class: "properties" },
      properties.map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value))),
    ),
    labels.length > 0 && [
      el("h3", {}, plural(source.labels.length, "label")),
      el(
        "p",
        { class: "chips" },
        labels.map((label) => el("span", { class: "chip" }, name(label))),
        more > 0 && ` and ${more} more`,
      ),
    ],
  ];
}

function showShards(source) {
  const message = "There is no shard yet. Add pictures, or push a prompt with `alacarte source push`.";
  const shards = source.shards.map(showShard);
  return [
    el("h3", {}, plural(shards.length, "shard")),
    shards.length ? el("ul", { class: "plain-list" }, shards) : empty(message),
  ];
}

function showShard(shard) {
  const title = `Shard ${shard.number + 1}`;
  const progress = { max: "1", value: String(shard.progress), "aria-label": `Training of shard ${shard.number + 1}` };
  return el(
    "li",
    {},
    el("div", { class: "split" }, title, el("span", { class: "small muted" }, describeShard(shard))),
    !READY.includes(shard.state) && el("progress", progress),
    shard.error && el("p", { class: "small bad-text" }, shard.error),
  );
}

function describeShard(shard) {
  const parts = [shard.samples && plural(shard.samples, "picture"), SHARD_STATES[shard.state]];
  if (shard.state === "training") parts.push(wholePercent(shard.progress), shard.worker && `worker ${shard.worker}`);
  if (shard.not_before) parts.push(`not before ${time(shard.not_before)}`);
  if (shard.generation > 1) parts.push(`generation ${shard.generation}`);
  return parts.filter(Boolean).join(" · ");
}

function showTraining(source, reloadAll) {
  const hasShardIn = (...states) => source.shards.some((shard) => states.includes(shard.state));
  const post = (action) => async () => {
    await call("POST", `sources/${source.id}/${action}`);
    await reloadAll();
  };
  return el(
    "div",
    { class: "actions" },
    button("Add pictures", () => openAddPictures(source, reloadAll)),
    hasShardIn("waiting", "training", "backing off") && actionButton("Stop training", null, post("cancel")),
    hasShardIn("paused", "backing off") && actionButton("Resume training", null, post("resume")),
  );
}

/** Shows the actions; `current` returns the source as it was last read. */
function showActions(current, { reload, close, reloadAll }) {
  const source = current();
  const mayManage = source.rights.includes("manage");
  const mayForget = source.rights.includes("forget");
  const onErased = () => {
    close();
    return reload();
  };
  return [
    mayManage && showGrants(source, reload),
    (mayManage || mayForget) && showSamples(current, mayForget, reloadAll),
    mayForget &&
      el(
        "section",
        { class: "danger-zone" },
        el("h3", {}, "Forget this source"),
        muted("Deletes everything of it, for all users and permanently. You get a signed receipt."),
        button("Forget the source…", () => confirmEraseSource(current(), onErased), { class: "danger" }),
      ),
  ];
}
