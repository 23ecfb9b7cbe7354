/** Pictures and their predictions: chosen, dropped or pasted, and predicted again when the selection changes. */

import { call, connection } from "../lib/api.js";
import { button, byId, el, empty, fill, name } from "../lib/dom.js";
import { currentTask, isUsable, selectedSources, state, store } from "../lib/store.js";
import { dropdown, field } from "../components/forms.js";
import { showProblem } from "../components/problem.js";
import { showPrediction } from "../components/result.js";

const DEBOUNCE_MS = 120; // several clicks in a row are one request
const MAX_PICTURES = 24;
const COMPOSITIONS = ["average", "concat", "vote"];
const WEIGHTINGS = ["none", "prototypes"];

const pictures = []; // { file, url, element, output, prediction, previous, request }
const options = { composition: "", weighting: "", release: "" };
let lastRequest = "";
let timer = null;

export function startPredict() {
  const drop = byId("drop");
  byId("files").addEventListener("change", (event) => {
    add(event.target.files);
    event.target.value = ""; // so that the same file can be chosen again
  });
  for (const kind of ["dragover", "drop"]) {
    document.addEventListener(kind, (event) => event.preventDefault()); // else the browser opens the dropped file
  }
  drop.addEventListener("dragover", () => drop.classList.add("over"));
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (event) => {
    drop.classList.remove("over");
    add(event.dataTransfer.files);
  });
  document.addEventListener("paste", (event) => {
    if (state.me !== null && event.clipboardData.files.length) add(event.clipboardData.files);
  });
  byId("clear").addEventListener("click", clearPictures);
  store.addEventListener("change", update);
  connection.addEventListener("found", () => pictures.forEach(predict));
}

export function clearPictures() {
  for (const picture of [...pictures]) remove(picture);
  Object.assign(options, { composition: "", weighting: "", release: "" });
  lastRequest = "";
}

function add(files) {
  for (const file of files) {
    const picture = { file, url: URL.createObjectURL(file), prediction: null, previous: null, request: null };
    picture.output = el("div", { class: "prediction", "aria-live": "polite" });
    const image = el("img", { src: picture.url, alt: `The picture ${file.name}` });
    const noPreview = el("p", { class: "no-preview small muted" }, "This browser cannot show this file.");
    image.addEventListener("error", () => image.replaceWith(noPreview));
    const off = button("Remove", () => remove(picture), { class: "plain", "aria-label": `Remove ${file.name}` });
    const caption = el("figcaption", { class: "small muted" }, name(file.name), off);
    picture.element = el("li", {}, el("figure", {}, image, caption), picture.output);
    pictures.unshift(picture);
    byId("pictures").prepend(picture.element);
    predict(picture);
  }
  for (const picture of pictures.slice(MAX_PICTURES)) remove(picture);
  byId("clear").hidden = pictures.length < 2;
}

function remove(picture) {
  picture.request?.abort();
  URL.revokeObjectURL(picture.url);
  picture.element.remove();
  pictures.splice(pictures.indexOf(picture), 1);
  byId("clear").hidden = pictures.length < 2;
}

/** Predicts again if the sources or the options have changed. */
function update() {
  drawOptions();
  drawNote();
  const generations = (source) => source.detail.shards.map((shard) => shard.generation);
  const sources = selectedSources().map((source) => [source.id, source.trained, generations(source)]);
  const request = JSON.stringify([state.taskId, isAllSelected(), sources, options]);
  if (request === lastRequest) return;
  lastRequest = request;
  clearTimeout(timer);
  timer = setTimeout(() => pictures.forEach(predict), DEBOUNCE_MS);
}

/** Whether no source is unticked. Then the request names none, and also uses those that the list does not show. */
const isAllSelected = () => state.sources.filter(isUsable).every((source) => !state.excluded.has(source.id));

async function predict(picture) {
  picture.request?.abort();
  const request = (picture.request = new AbortController());
  if (!isAllSelected() && !selectedSources().length) {
    fill(picture.output, empty("No source is selected. Tick at least one in the list."));
    return;
  }
  if (picture.prediction === null) fill(picture.output, el("p", { class: "muted" }, "Predicting…"));
  picture.output.setAttribute("aria-busy", "true");
  try {
    const prediction = await call("POST", "predict", { form: requestForm(picture.file), signal: request.signal });
    if (picture.prediction?.set_digest !== prediction.set_digest) picture.previous = picture.prediction;
    picture.prediction = prediction;
    const isOpen = picture.output.querySelector("details")?.open ?? false;
    fill(picture.output, showPrediction(prediction, picture.previous));
    picture.output.querySelector("details").open = isOpen;
  } catch (error) {
    if (error.name === "AbortError") return; // a newer request replaces this one
    picture.prediction = null;
    showProblem(picture.output, error, () => predict(picture));
  }
  picture.output.removeAttribute("aria-busy");
}

function requestForm(file) {
  const form = new FormData();
  form.append("image", file);
  form.append("explain", "true");
  if (state.taskId !== null) form.append("task", state.taskId);
  if (!isAllSelected()) for (const source of selectedSources()) form.append("sources", source.id);
  for (const [key, value] of Object.entries(options)) if (value) form.append(key, value);
  return form;
}

/** Draws the options; only if they have changed, so that an open list stays open. */
function drawOptions() {
  const task = currentTask();
  byId("options").hidden = task === null;
  if (task === null) return;
  const fields = byId("option-fields");
  const releases = state.releases.map((release) => [release.id, release.name]);
  const drawn = JSON.stringify([task.id, task.composition, task.weighting, releases]);
  if (fields.dataset.drawn === drawn) return;
  fields.dataset.drawn = drawn;
  if (!state.releases.some((release) => release.id === options.release)) options.release = "";
  const choices = (default_, values) => [["", `task default (${default_})`], ...values.map((value) => [value, value])];
  const lists = [
    ["composition", "Composition", choices(task.composition, COMPOSITIONS)],
    ["weighting", "Weighting", choices(task.weighting, WEIGHTINGS)],
    ["release", "Prompts", [["", "current"], ...releases.map(([id, title]) => [id, `release ${title}`])]],
  ];
  fill(
    fields,
    lists.map(([key, label, items]) => {
      const list = dropdown(items, options[key]);
      list.addEventListener("change", () => {
        options[key] = list.value;
        update();
      });
      return field(label, list);
    }),
  );
}

function drawNote() {
  const hasNone = state.hasLoaded && state.sources.length > 0 && !state.hasMore && !state.sources.some(isUsable);
  const isTraining = state.sources.some((source) => source.detail?.rights.includes("use"));
  const text = isTraining
    ? "Your sources are not trained yet. Predictions start with the first trained shard."
    : "You may not use any of these sources yet. Ask whoever manages one for a grant.";
  fill(byId("predict-note"), hasNone && empty(text));
}
