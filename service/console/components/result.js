/** Shows one prediction: the labels, the sources that it is based on, and each source's own result. */

import { el, meter, muted, name } from "../lib/dom.js";
import { percent, plural, short } from "../lib/format.js";
import { sourceName } from "../lib/store.js";

const MIN_CHANGE = 0.0005; // smaller changes round to zero
const OWN_LABELS = 3;

/** Returns the elements of a prediction, with the change since the previous one, which other sources made. */
export function showPrediction(prediction, previous) {
  const result = prediction.results[0];
  const old = previous && new Map(previous.results[0].labels.map(({ label, score }) => [label, score]));
  const labels = result.labels.map((scored) => showLabel(scored, old));
  const sources = prediction.sources.flatMap((id, at) => [at ? ", " : "", nameOfSource(id)]);
  const count = plural(prediction.sources.length, "source");
  const weighting = prediction.weighting === "none" ? "" : `, weighting: ${prediction.weighting}`;
  const setDigest = el("code", { title: prediction.set_digest }, prediction.set_digest.slice(0, 12));
  return [
    el("ol", { class: "labels" }, labels),
    el("p", { class: "small muted based-on" }, `Based on ${count}: `, sources),
    el(
      "details",
      { class: "explanation" },
      el("summary", {}, "Result of each source"),
      el("ul", {}, (result.explain ?? []).map(showSource)),
      muted(`Composition: ${prediction.composition}${weighting}. Set: `, setDigest),
    ),
  ];
}

function showLabel({ label, score }, old) {
  const change = old ? score - (old.get(label) ?? 0) : 0;
  const points = `${change > 0 ? "+" : "−"}${(100 * Math.abs(change)).toFixed(1)}`;
  return el(
    "li",
    {},
    el("span", { class: "label" }, name(label)),
    meter(score),
    el("span", { class: "score" }, percent(score)),
    el("span", { class: `change ${change > 0 ? "up" : "down"}` }, Math.abs(change) < MIN_CHANGE ? "" : points),
  );
}

function showSource({ source, weight, labels }) {
  const best = labels
    .slice(0, OWN_LABELS)
    .flatMap(({ label, score }, at) => [at ? ", " : "", name(label), ` ${percent(score)}`]);
  const weightText = el("span", { class: "small muted" }, `weight ${percent(weight)}`);
  return el(
    "li",
    { "data-source": source },
    el("div", { class: "split" }, nameOfSource(source), weightText),
    meter(weight, "thin"),
    el("p", { class: "small" }, best),
  );
}

const nameOfSource = (id) => name(sourceName(id) ?? short(id));
