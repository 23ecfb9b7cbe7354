/** One answer as people read it: the labels, what they rest on, and what each source said by itself. */

import { bar, el, name } from "../lib/dom.js";
import { sourceName } from "../lib/store.js";
import { many, percent, short } from "../lib/format.js";

const NOTICEABLE = 0.0005; // a smaller change would be shown as none
const OWN_LABELS = 3;

/** The answer, with the change since the one before; other sources make another answer. */
export function showAnswer(prediction, before) {
  const result = prediction.results[0];
  const old = before && new Map(before.results[0].labels.map((scored) => [scored.label, scored.score]));
  const labels = el(
    "ol",
    { class: "labels" },
    result.labels.map((scored) => showLabel(scored, old)),
  );
  const sources = prediction.sources.flatMap((id, at) => [at ? ", " : "", calledName(id)]);
  const rests = el(
    "p",
    { class: "small quiet rests" },
    `Answered by ${many(prediction.sources.length, "source")}: `,
    sources,
  );
  const weighted = prediction.weighting === "none" ? "" : `, weighted by ${prediction.weighting}`;
  const facts = el(
    "p",
    { class: "small quiet" },
    `Composed by ${prediction.composition}${weighted}; the set is `,
    el("code", { title: prediction.set_digest }, prediction.set_digest.slice(0, 12)),
  );
  return [labels, rests, explain(result.explain ?? [], facts)];
}

function showLabel({ label, score }, old) {
  const moved = old ? score - (old.get(label) ?? 0) : 0;
  const change = Math.abs(moved) < NOTICEABLE ? "" : `${moved > 0 ? "+" : "−"}${(100 * Math.abs(moved)).toFixed(1)}`;
  return el(
    "li",
    {},
    el("span", { class: "label" }, name(label)),
    bar(score),
    el("span", { class: "score" }, percent(score)),
    el("span", { class: `change ${moved > 0 ? "up" : "down"}` }, change),
  );
}

function explain(says, facts) {
  const rows = says.map((one) =>
    el(
      "li",
      { "data-source": one.source },
      el(
        "div",
        { class: "line" },
        calledName(one.source),
        el("span", { class: "small quiet" }, `weight ${percent(one.weight)}`),
      ),
      bar(one.weight, "thin"),
      el(
        "p",
        { class: "small" },
        one.labels
          .slice(0, OWN_LABELS)
          .flatMap((scored, at) => [at ? ", " : "", name(scored.label), ` ${percent(scored.score)}`]),
      ),
    ),
  );
  return el(
    "details",
    { class: "says" },
    el("summary", {}, "What each source said by itself"),
    el("ul", {}, rows),
    facts,
  );
}

const calledName = (id) => name(sourceName(id) ?? short(id));
