/** The menu: every source that one may see, how far its training has come, and a tick for those that shall answer. */

import { button, byId, el, fill, name } from "../lib/dom.js";
import { choose, field } from "../components/forms.js";
import { openSource } from "./source_detail.js";
import {
  answering,
  canAnswer,
  chooseTask,
  isAdmin,
  may,
  mayUpload,
  showMore,
  state,
  store,
  tick,
  tickAll,
  userName,
} from "../lib/store.js";
import { openUpload } from "./upload.js";
import { many, stateOf } from "../lib/format.js";

const rows = new Map(); // by id: kept while a source is there, so that focus stays where it is

/** Draws the menu now and whenever something changes; `look` reads it anew. */
export function startMenu(look) {
  byId("upload").addEventListener("click", () => openUpload(look));
  store.addEventListener("change", () => draw(look));
}

function draw(look) {
  byId("upload").hidden = !mayUpload() || !state.tasks.length;
  drawTools(look);
  const present = new Set(state.sources.map((source) => source.id));
  for (const [id, row] of rows) {
    if (present.has(id)) continue;
    row.element.remove();
    rows.delete(id);
  }
  const list = byId("menu");
  state.sources.forEach((source, at) => {
    if (!rows.has(source.id)) rows.set(source.id, makeRow(source.id, look));
    const row = rows.get(source.id);
    if (list.children[at] !== row.element) list.insertBefore(row.element, list.children[at] ?? null);
    row.update(source);
  });
  drawEnd(look);
}

/** The choice of the task, and of everything or nothing; drawn anew only when it says something else. */
function drawTools(look) {
  const place = byId("menu-tools");
  const usable = state.sources.filter(canAnswer).length;
  const told = JSON.stringify([state.tasks.map((one) => [one.id, one.name]), state.taskId]);
  if (place.dataset.told !== told) {
    place.dataset.told = told;
    const select = choose(
      state.tasks.map((one) => [one.id, one.name]),
      state.taskId,
    );
    select.addEventListener("change", () => {
      chooseTask(select.value);
      look();
    });
    const all = button("All", () => tickAll(true), { class: "plain", "aria-label": "Tick all sources" });
    const none = button("None", () => tickAll(false), { class: "plain", "aria-label": "Untick all sources" });
    const ticks = el(
      "div",
      { class: "bar", id: "ticks" },
      el("p", { class: "small quiet", id: "ticks-say" }),
      el("span", {}, all, none),
    );
    fill(place, state.tasks.length > 1 && field("Task", select), ticks);
  }
  byId("ticks").hidden = usable === 0;
  fill(byId("ticks-say"), `${answering().length} of ${many(usable, "source")} that you may use will answer`);
}

function makeRow(id, look) {
  const box = el("input", { type: "checkbox" });
  box.addEventListener("change", () => tick(id, box.checked));
  const title = button("", () => openSource(id, look), { class: "link" });
  const pill = el("span", { class: "pill" });
  const facts = el("p", { class: "small quiet" });
  const progress = el("progress", { max: "1" });
  const text = el("div", {}, el("div", { class: "line" }, title, pill), facts, progress);
  const element = el("li", { "data-source": id }, box, text);

  function update(source) {
    const { word, kind } = stateOf(source, source.detail);
    const isUsable = canAnswer(source);
    box.disabled = !isUsable;
    box.checked = isUsable && !state.leftOut.has(id);
    box.setAttribute("aria-label", `Let ${source.name} answer`);
    fill(title, name(source.name));
    title.setAttribute("aria-label", `${source.name}: details`);
    pill.className = `pill ${kind}`;
    fill(pill, word);
    const rights = source.detail === null ? "" : may(source, "use") ? "" : " · not granted to you";
    const pictures = source.samples ? many(source.samples, "picture") : "no pictures";
    fill(
      facts,
      `${pictures} · ${source.trained} of ${many(source.shards, "shard")} trained · owner: `,
      name(userName(source.owner_id)),
      rights,
    );
    const share = source.detail?.progress ?? 0;
    progress.hidden = !source.shards || source.trained >= source.shards;
    progress.value = share;
    progress.setAttribute("aria-label", `Training of ${source.name}`);
    element.classList.toggle("barred", !isUsable);
  }

  return { element, update };
}

function drawEnd(look) {
  const more =
    state.hasMore &&
    button("Show more sources", () => {
      showMore();
      look();
    });
  fill(byId("menu-end"), more, state.hasLoaded && !state.sources.length && el("p", { class: "empty" }, emptyMenu()));
}

function emptyMenu() {
  if (!state.tasks.length) {
    return isAdmin()
      ? "There is no task yet. Make one under Administration."
      : "There is no task yet. An admin makes one.";
  }
  return mayUpload()
    ? "No source yet. Upload an archive of pictures, one folder for each label."
    : "No source is open to you yet. Ask an admin or an owner to grant you one: they need your id, under your name.";
}
