/** The pictures of a source, page by page; each can be forgotten by itself. */

import { call } from "../lib/api.js";
import { button, el, empty, fill, name } from "../lib/dom.js";
import { bytes, short } from "../lib/format.js";
import { dropdown, field } from "../components/forms.js";
import { clearProblem, showProblem } from "../components/problem.js";
import { confirmEraseSample } from "./erase_dialog.js";

const PAGE_SIZE = 20;

export function showSamples(current, mayForget, onErased) {
  const source = current();
  const list = el("ul", { class: "plain-list samples" });
  const end = el("div");
  const problem = el("div");
  const label = dropdown([["", "all labels"], ...source.labels.map((one) => [one, one])], "");
  let after = null;

  async function loadMore() {
    clearProblem(problem);
    try {
      const query = { label: label.value, after, limit: PAGE_SIZE };
      const page = await call("GET", `sources/${source.id}/samples`, { query });
      after = page.next;
      list.append(...page.items.map(row));
      const isEmpty = !list.children.length && empty("No pictures are stored.");
      fill(end, isEmpty, after !== null && button("Show more pictures", loadMore));
    } catch (error) {
      showProblem(problem, error, loadMore);
    }
  }

  function reload() {
    after = null;
    fill(list);
    return loadMore();
  }

  const erase = (sample) => confirmEraseSample(current(), sample, () => Promise.all([reload(), onErased()]));

  function row(sample) {
    const attributes = { class: "danger plain", "aria-label": `Forget the picture ${sample.name}` };
    const digest = el("code", { title: sample.digest }, short(sample.digest));
    const size = ` · ${bytes(sample.size_bytes)} · `;
    const facts = el("span", { class: "small muted" }, name(sample.label), size, digest);
    return el(
      "li",
      { class: "split" },
      el("span", {}, name(sample.name), el("br"), facts),
      mayForget && button("Forget…", () => erase(sample), attributes),
    );
  }

  label.addEventListener("change", reload);
  const details = el(
    "details",
    {},
    el("summary", {}, "Show the pictures"),
    field("Label", label),
    list,
    problem,
    end,
    mayForget && eraseByFile(erase),
  );
  details.addEventListener("toggle", () => details.open && !list.children.length && reload());
  return el("section", {}, el("h3", {}, "Pictures"), details);
}

/** Finds a picture by the digest of a file, which is computed in the browser. */
function eraseByFile(erase) {
  if (!window.crypto?.subtle) return null; // browsers offer it over https and on localhost only
  const file = el("input", { type: "file" });
  file.addEventListener("change", async () => {
    const [chosen] = file.files;
    if (!chosen) return;
    const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await chosen.arrayBuffer()));
    const text = Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
    erase({ digest: text, name: chosen.name, label: null });
    file.value = "";
  });
  return field("Forget the picture in this file", file, "The file stays on this computer. Only its digest is sent.");
}
