/** Pictures and their answers: dropped, pasted or chosen, and asked again whenever other sources shall answer. */

import { call, connection } from "../lib/api.js";
import { showAnswer } from "../components/result.js";
import { button, byId, el, fill, name } from "../lib/dom.js";
import { choose, field } from "../components/forms.js";
import { showProblem } from "../components/toasts.js";
import { answering, canAnswer, state, store, task } from "../lib/store.js";

const SETTLE_MS = 120; // several ticks in a row are one question
const MOST = 24; // pictures on the page
const COMPOSITIONS = ["average", "concat", "vote"];
const WEIGHTINGS = ["none", "prototypes"];

const asked = []; // pictures: { file, url, element, place, answer, before, asking }
const wish = { composition: "", weighting: "", release: "" };
let lastSet = "";
let timer = null;

export function startAsking() {
  const drop = byId("drop");
  byId("files").addEventListener("change", (event) => {
    add(event.target.files);
    event.target.value = ""; // the same file may be chosen again
  });
  for (const kind of ["dragover", "drop"]) {
    document.addEventListener(kind, (event) => event.preventDefault()); // or a miss would leave the page
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
  store.addEventListener("change", follow);
  connection.addEventListener("found", () => asked.forEach(ask));
}

export function clearPictures() {
  for (const picture of [...asked]) remove(picture);
  Object.assign(wish, { composition: "", weighting: "", release: "" });
  lastSet = "";
}

function add(files) {
  for (const file of files) {
    const picture = { file, url: URL.createObjectURL(file), answer: null, before: null, asking: null };
    picture.place = el("div", { class: "answer", "aria-live": "polite" });
    const image = el("img", { src: picture.url, alt: `The picture ${file.name}` });
    image.addEventListener("error", () =>
      image.replaceWith(el("p", { class: "unshown small quiet" }, "This browser cannot show it.")),
    );
    const off = button("Remove", () => remove(picture), { class: "plain", "aria-label": `Remove ${file.name}` });
    const caption = el("figcaption", { class: "small quiet" }, name(file.name), off);
    picture.element = el("li", {}, el("figure", {}, image, caption), picture.place);
    asked.unshift(picture);
    byId("pictures").prepend(picture.element);
    ask(picture);
  }
  for (const picture of asked.slice(MOST)) remove(picture);
  byId("clear").hidden = asked.length < 2;
}

function remove(picture) {
  picture.asking?.abort();
  URL.revokeObjectURL(picture.url);
  picture.element.remove();
  asked.splice(asked.indexOf(picture), 1);
  byId("clear").hidden = asked.length < 2;
}

/** Asks again if what would answer is not what it was. */
function follow() {
  drawHow();
  drawNote();
  const set = JSON.stringify([
    state.taskId,
    isWhole(),
    answering().map((source) => [source.id, source.trained, source.detail.shards.map((shard) => shard.generation)]),
    wish,
  ]);
  if (set === lastSet) return;
  lastSet = set;
  clearTimeout(timer);
  timer = setTimeout(() => asked.forEach(ask), SETTLE_MS);
}

/** Whether nothing was left out: then the service is asked for all, also for what the menu does not list. */
const isWhole = () => state.sources.every((source) => !canAnswer(source) || !state.leftOut.has(source.id));

async function ask(picture) {
  picture.asking?.abort();
  const asking = (picture.asking = new AbortController());
  if (!isWhole() && !answering().length) {
    fill(picture.place, el("p", { class: "empty" }, "Nothing is ticked. Tick a source on the menu."));
    return;
  }
  if (picture.answer === null) fill(picture.place, el("p", { class: "quiet" }, "Asking…"));
  picture.place.setAttribute("aria-busy", "true");
  try {
    const answer = await call("POST", "predict", { form: question(picture.file), signal: asking.signal });
    if (picture.answer?.set_digest !== answer.set_digest) picture.before = picture.answer;
    picture.answer = answer;
    const isOpen = picture.place.querySelector("details")?.open ?? false;
    fill(picture.place, showAnswer(answer, picture.before));
    picture.place.querySelector("details").open = isOpen;
  } catch (error) {
    if (error.name === "AbortError") return; // whoever stopped it asks again
    picture.answer = null;
    showProblem(picture.place, error, () => ask(picture));
  }
  picture.place.removeAttribute("aria-busy");
}

function question(file) {
  const form = new FormData();
  form.append("image", file);
  form.append("explain", "true");
  if (state.taskId !== null) form.append("task", state.taskId);
  if (!isWhole()) for (const source of answering()) form.append("sources", source.id);
  for (const [key, value] of Object.entries(wish)) if (value) form.append(key, value);
  return form;
}

/** What the task does by default may be done otherwise; drawn anew only when it offers something else. */
function drawHow() {
  const own = task();
  byId("how").hidden = own === null;
  if (own === null) return;
  const place = byId("how-fields");
  const told = JSON.stringify([
    own.id,
    own.composition,
    own.weighting,
    state.releases.map((one) => [one.id, one.name]),
  ]);
  if (place.dataset.told === told) return;
  place.dataset.told = told;
  if (!state.releases.some((one) => one.id === wish.release)) wish.release = "";
  const menus = [
    [
      "composition",
      "Composition",
      [["", `the task's own (${own.composition})`], ...COMPOSITIONS.map((one) => [one, one])],
    ],
    ["weighting", "Weighting", [["", `the task's own (${own.weighting})`], ...WEIGHTINGS.map((one) => [one, one])]],
    ["release", "Prompts", [["", "those of now"], ...state.releases.map((one) => [one.id, `pinned as ${one.name}`])]],
  ];
  fill(
    place,
    menus.map(([key, label, options]) => {
      const select = choose(options, wish[key]);
      select.addEventListener("change", () => {
        wish[key] = select.value;
        follow();
      });
      return field(label, select);
    }),
  );
}

function drawNote() {
  const isBarred = state.hasLoaded && state.sources.length > 0 && !state.hasMore && !state.sources.some(canAnswer);
  const isTraining = state.sources.some((source) => source.detail?.rights.includes("use"));
  const text = isTraining
    ? "What you may use is not trained yet. Answers begin with the first shard."
    : "You may use none of these sources yet. Whoever manages one can grant it: open it on the menu.";
  fill(byId("ask-note"), isBarred && el("p", { class: "empty" }, text));
}
