/** The pictures of a source, page by page, each of which can be forgotten by itself. */

import { call } from "../lib/api.js";
import { button, el, fill, name } from "../lib/dom.js";
import { confirmForgettingSample } from "./erase_dialog.js";
import { choose, field } from "../components/forms.js";
import { clearProblem, showProblem } from "../components/toasts.js";
import { bytes, short } from "../lib/format.js";

const PAGE = 20;

export function showSamples(current, mayForget, hasForgotten) {
  const source = current();
  const list = el("ul", { class: "plain-list samples" });
  const end = el("div");
  const problem = el("div");
  const label = choose([["", "all labels"], ...source.labels.map((one) => [one, one])], "");
  let after = null;

  async function more() {
    clearProblem(problem);
    try {
      const query = { label: label.value, after, limit: PAGE };
      const page = await call("GET", `sources/${source.id}/samples`, { query });
      after = page.next;
      list.append(...page.items.map(row));
      const isEmpty = !list.children.length && el("p", { class: "empty" }, "No pictures are kept here.");
      fill(end, isEmpty, after !== null && button("Show more pictures", more));
    } catch (error) {
      showProblem(problem, error, more);
    }
  }

  function anew() {
    after = null;
    fill(list);
    return more();
  }

  function forget(sample) {
    confirmForgettingSample(current(), sample, () => Promise.all([anew(), hasForgotten()]));
  }

  function row(sample) {
    const off =
      mayForget &&
      button("Forget…", () => forget(sample), {
        class: "danger plain",
        "aria-label": `Forget the picture ${sample.name}`,
      });
    const facts = el(
      "span",
      { class: "small quiet" },
      name(sample.label),
      ` · ${bytes(sample.size_bytes)} · `,
      el("code", { title: sample.digest }, short(sample.digest)),
    );
    return el("li", { class: "line" }, el("span", {}, name(sample.name), el("br"), facts), off);
  }

  label.addEventListener("change", anew);
  const made = el(
    "details",
    {},
    el("summary", {}, "Show the pictures"),
    field("Label", label),
    list,
    problem,
    end,
    mayForget && byFile(forget),
  );
  made.addEventListener("toggle", () => made.open && !list.children.length && anew());
  return el("section", {}, el("h3", {}, "Pictures"), made);
}

/** Whoever has the file needs not look for it: its digest names it, and is computed here. */
function byFile(forget) {
  if (!window.crypto?.subtle) return null; // a browser offers it over https and on this machine only
  const file = el("input", { type: "file" });
  file.addEventListener("change", async () => {
    const [chosen] = file.files;
    if (!chosen) return;
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await chosen.arrayBuffer()));
    const text = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
    forget({ digest: text, name: chosen.name, label: null });
    file.value = "";
  });
  return field(
    "Forget the picture in this file",
    file,
    "The file is not sent: only its digest, which is computed here.",
  );
}
