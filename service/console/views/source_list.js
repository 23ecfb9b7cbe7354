/** The list of sources: the state of each, and a checkbox that selects it for predictions. */

import { button, byId, el, empty, fill, name } from "../lib/dom.js";
import { plural, sourceState } from "../lib/format.js";
import {
  chooseTask,
  isAdmin,
  isSelected,
  isUsable,
  may,
  mayUpload,
  select,
  selectedSources,
  showMoreSources,
  state,
  store,
  userName,
} from "../lib/store.js";
import { dropdown, field } from "../components/forms.js";
import { openSource } from "./source_detail.js";
import { openUpload } from "./upload.js";

const rows = new Map(); // by source id; reused, so that the focus stays where it is

/** Draws the list whenever the state changes; `reload` reads the state from the service. */
export function startSourceList(reload) {
  byId("upload").addEventListener("click", () => openUpload(reload));
  store.addEventListener("change", () => draw(reload));
}

function draw(reload) {
  byId("upload").hidden = !mayUpload() || !state.tasks.length;
  drawTools(reload);
  const present = new Set(state.sources.map((source) => source.id));
  for (const [id, row] of rows) {
    if (present.has(id)) continue;
    row.element.remove();
    rows.delete(id);
  }
  const list = byId("source-list");
  state.sources.forEach((source, at) => {
    if (!rows.has(source.id)) rows.set(source.id, createRow(source.id, reload));
    const row = rows.get(source.id);
    if (list.children[at] !== row.element) list.insertBefore(row.element, list.children[at] ?? null);
    row.update(source);
  });
  drawEnd(reload);
}

/** Draws the task list and the buttons All and None; only if the tasks have changed. */
function drawTools(reload) {
  const tools = byId("source-tools");
  const usable = state.sources.filter(isUsable);
  const tasks = state.tasks.map((task) => [task.id, task.name]);
  const drawn = JSON.stringify([tasks, state.taskId]);
  if (tools.dataset.drawn !== drawn) {
    tools.dataset.drawn = drawn;
    const list = dropdown(tasks, state.taskId);
    list.addEventListener("change", () => {
      chooseTask(list.value);
      reload();
    });
    const selectAll = (isTicked) => () => select(state.sources.filter(isUsable).map((source) => source.id), isTicked);
    const selection = el(
      "div",
      { class: "toolbar", id: "selection" },
      el("p", { class: "small muted", id: "selection-count" }),
      el(
        "span",
        {},
        button("All", selectAll(true), { class: "plain", "aria-label": "Select all sources" }),
        button("None", selectAll(false), { class: "plain", "aria-label": "Select no source" }),
      ),
    );
    fill(tools, state.tasks.length > 1 && field("Task", list), selection);
  }
  byId("selection").hidden = !usable.length;
  fill(byId("selection-count"), `${selectedSources().length} of ${plural(usable.length, "usable source")} selected`);
}

function createRow(id, reload) {
  const box = el("input", { type: "checkbox" });
  box.addEventListener("change", () => select([id], box.checked));
  const title = button("", () => openSource(id, reload), { class: "link" });
  const pill = el("span", { class: "pill" });
  const summary = el("p", { class: "small muted" });
  const progress = el("progress", { max: "1" });
  const text = el("div", {}, el("div", { class: "split" }, title, pill), summary, progress);
  const element = el("li", { "data-source": id }, box, text);

  function update(source) {
    const status = sourceState(source, source.detail);
    box.disabled = !isUsable(source);
    box.checked = isSelected(source);
    box.setAttribute("aria-label", `Use ${source.name}`);
    fill(title, name(source.name));
    title.setAttribute("aria-label", `${source.name}: details`);
    pill.className = `pill ${status.kind}`;
    fill(pill, status.text);
    const pictures = source.samples ? plural(source.samples, "picture") : "no pictures";
    fill(
      summary,
      `${pictures} · ${source.trained} of ${plural(source.shards, "shard")} trained · owner: `,
      name(userName(source.owner_id)),
      source.detail !== null && !may(source, "use") && " · not granted to you",
    );
    progress.hidden = !source.shards || source.trained >= source.shards;
    progress.value = source.detail?.progress ?? 0;
    progress.setAttribute("aria-label", `Training of ${source.name}`);
    element.classList.toggle("unusable", !isUsable(source));
  }

  return { element, update };
}

function drawEnd(reload) {
  const more = () => {
    showMoreSources();
    reload();
  };
  const isEmpty = state.hasLoaded && !state.sources.length;
  fill(byId("source-list-end"), state.hasMore && button("Show more sources", more), isEmpty && empty(emptyText()));
}

function emptyText() {
  if (!state.tasks.length && isAdmin()) return "There is no task yet. Create one on the page Admin.";
  if (!state.tasks.length) return "There is no task yet. An admin must create one.";
  return mayUpload()
    ? "There is no source yet. Upload an archive of pictures with one folder for each label."
    : "You may not use any source yet. Ask an admin or an owner for a grant, and give them your id from your account.";
}
