/** Erasures: the steps of each, and its receipt. */

import { call, callAll } from "../lib/api.js";
import { button, byId, el, fill, muted, name, table } from "../lib/dom.js";
import { short, STEPS, time } from "../lib/format.js";
import { isAdmin } from "../lib/store.js";
import { openDialog } from "../components/dialog.js";
import { actionButton } from "../components/forms.js";
import { watch } from "../components/remote_data.js";

/** Shows the progress of one erasure; `title` names what is forgotten, if the page still knows it. */
export function openErasure(id, title = null) {
  const { body, signal } = openDialog(title === null ? "Erasure" : `Forgetting ${title}`);
  const problem = el("div");
  const content = el("div", { "aria-live": "polite" });
  fill(body, problem, content);
  const read = () => call("GET", `erasures/${id}`, { signal });
  watch(read, (erasure) => fill(content, showErasure(erasure)), { problem, signal, minMs: 500, maxMs: 5000 });
}

function showErasure(erasure) {
  return [
    el("p", {}, describe(erasure)),
    el("ol", { class: "steps" }, erasure.steps.map(showStep)),
    erasure.receipt && showReceipt(erasure),
  ];
}

function showStep(step) {
  const counts = Object.entries(step.found)
    .filter(([, value]) => typeof value === "number" && value > 0)
    .map(([key, value]) => `${key.replaceAll("_", " ")}: ${value.toLocaleString("en")}`)
    .join(" · ");
  const status = step.done_at ? `done ${time(step.done_at)}` : "not done";
  const note = step.done_at ? counts : step.error;
  return el(
    "li",
    { class: step.done_at ? "done" : "open" },
    el("div", { class: "split" }, STEPS[step.name] ?? step.name, el("span", { class: "small muted" }, status)),
    note && muted(note),
  );
}

function describe(erasure) {
  const what = { source: "The source", shard: "The shard", sample: "The picture" }[erasure.scope];
  if (erasure.state === "complete")
    return `Complete since ${time(erasure.completed_at)}. ${what} is forgotten and verified.`;
  return `Running since ${time(erasure.requested_at)}. You may close this dialog; the erasure continues.`;
}

function showReceipt(erasure) {
  const result = el("div", { "aria-live": "polite" });
  const check = async () => {
    const { holds, checks } = await call("GET", `erasures/${erasure.id}/verification`);
    const rows = checks.map((one) => [one.name, one.ok ? "passed" : "failed", one.detail]);
    fill(
      result,
      el("p", {}, el("strong", {}, holds ? "The receipt is valid." : "The receipt is not valid.")),
      table(["Check", "Result", "Detail"], rows, "There is nothing to check.", "Checks"),
    );
  };
  return el(
    "section",
    {},
    el("h3", {}, "Receipt"),
    muted("Signed by this service: what was deleted, and when. Keep it, so that it can be checked later."),
    el(
      "div",
      { class: "actions" },
      button("Download the receipt", () => download(erasure), { class: "primary" }),
      actionButton("Check the receipt", null, check),
    ),
    result,
  );
}

function download(erasure) {
  const file = new Blob([`${JSON.stringify(erasure.receipt, null, 2)}\n`], { type: "application/json" });
  const url = URL.createObjectURL(file);
  el("a", { href: url, download: `receipt-${erasure.id}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000); // after the browser has read it
}

/** Draws the page of all erasures until the signal aborts. */
export function startErasures(signal) {
  const list = el("div");
  const problem = el("div");
  const intro = isAdmin() ? "All requests to forget." : "Your requests to forget.";
  const heading = el("h1", { id: "erasures-title" }, "Erasures");
  const attributes = { class: "card", "aria-labelledby": "erasures-title" };
  fill(byId("page-erasures"), el("section", attributes, heading, el("p", { class: "muted" }, intro), problem, list));
  const message = "There is no erasure yet. Open a source in the list to forget it or one of its pictures.";
  const draw = (rows) => fill(list, table(["Requested", "What", "State", ""], rows.map(row), message, "Erasures"));
  const read = async () => (await callAll("erasures", { signal })).rows.reverse();
  watch(read, draw, { problem, signal });
}

function row(erasure) {
  const done = erasure.steps.filter((step) => step.done_at).length;
  const what =
    erasure.scope === "sample"
      ? `picture ${short(erasure.sample)} of source ${short(erasure.source_id)}`
      : `${erasure.scope} ${short(erasure.shard_id ?? erasure.source_id)}`;
  const isDone = erasure.state === "complete";
  const status = isDone ? "complete" : `${done} of ${erasure.steps.length} steps`;
  const attributes = { "aria-label": `Show the erasure of ${what}` };
  return [
    time(erasure.requested_at),
    name(what),
    el("span", { class: `pill ${isDone ? "good" : "busy"}` }, status),
    button(isDone ? "Receipt" : "Steps", () => openErasure(erasure.id), attributes),
  ];
}
