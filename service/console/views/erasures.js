/** What is being forgotten: its steps as they are done, and the receipt at the end. */

import { call, callAll } from "../lib/api.js";
import { openDialog } from "../components/dialog.js";
import { button, byId, el, fill, name, table } from "../lib/dom.js";
import { act } from "../components/forms.js";
import { clearProblem, showProblem } from "../components/toasts.js";
import { poll } from "../lib/polling.js";
import { isAdmin } from "../lib/store.js";
import { moment, short, STEPS } from "../lib/format.js";

/** Shows one erasure until it is complete; `title` is what was forgotten, while this page still knows. */
export function openErasure(id, title = null) {
  const { body, signal } = openDialog(title === null ? "An erasure" : `Forgetting ${title}`);
  const problem = el("div");
  const place = el("div", { "aria-live": "polite" });
  fill(body, problem, place);
  let last = "";

  const hurry = poll(
    async () => {
      let erasure;
      try {
        erasure = await call("GET", `erasures/${id}`, { signal });
      } catch (error) {
        showProblem(problem, error);
        throw error;
      }
      clearProblem(problem);
      const told = JSON.stringify(erasure);
      if (told === last) return false;
      last = told;
      fill(place, showErasure(erasure));
      return true;
    },
    { signal, eagerMs: 500, patientMs: 5000 },
  );
  hurry();
}

function showErasure(erasure) {
  const steps = erasure.steps.map((step) =>
    el(
      "li",
      { class: step.done_at ? "done" : "open" },
      el(
        "div",
        { class: "line" },
        STEPS[step.name] ?? step.name,
        el("span", { class: "small quiet" }, step.done_at ? `done, ${moment(step.done_at)}` : "not yet"),
      ),
      !step.done_at && step.error && el("p", { class: "small quiet" }, step.error),
      step.done_at && counted(step.found) && el("p", { class: "small quiet" }, counted(step.found)),
    ),
  );
  return [el("p", {}, describe(erasure)), el("ol", { class: "steps" }, steps), erasure.receipt && showReceipt(erasure)];
}

const counted = (found) =>
  Object.entries(found)
    .filter(([, value]) => typeof value === "number" && value > 0)
    .map(([key, value]) => `${key.replaceAll("_", " ")}: ${value.toLocaleString("en")}`)
    .join(" · ");

function describe(erasure) {
  const what = { source: "a source", shard: "a shard", sample: "a picture" }[erasure.scope];
  if (erasure.state === "complete")
    return `Complete since ${moment(erasure.completed_at)}: ${what} is forgotten, and that was verified.`;
  const since = `Under way since ${moment(erasure.requested_at)}`;
  return `${since}: ${what} is forgotten step by step, until all is verified. You may close this; it goes on.`;
}

function showReceipt(erasure) {
  const verification = el("div", { "aria-live": "polite" });
  const check = act("Check the receipt", null, async () => {
    const { holds, checks } = await call("GET", `erasures/${erasure.id}/verification`);
    const rows = checks.map((one) => [one.name, one.ok ? "holds" : "does not hold", one.detail]);
    fill(
      verification,
      el("p", {}, el("strong", {}, holds ? "The receipt holds." : "The receipt does not hold.")),
      table(["Look", "", "Found"], rows, "Nothing to check.", "Checks"),
    );
  });
  return el(
    "section",
    {},
    el("h3", {}, "Receipt"),
    el(
      "p",
      { class: "small quiet" },
      "Signed by this service: what was removed, and when. Keep it; it can be checked later.",
    ),
    el(
      "div",
      { class: "actions" },
      button("Download the receipt", () => download(erasure), { class: "primary" }),
      check,
    ),
    verification,
  );
}

function download(erasure) {
  const file = new Blob([`${JSON.stringify(erasure.receipt, null, 2)}\n`], { type: "application/json" });
  const url = URL.createObjectURL(file);
  el("a", { href: url, download: `receipt-${erasure.id}.json` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000); // once the browser has taken it
}

/** Draws the page of all erasures until the signal ends it. */
export function startErasures(signal) {
  const place = el("div");
  const problem = el("div");
  const intro = isAdmin() ? "All that was asked to be forgotten." : "What you asked to be forgotten.";
  fill(
    byId("page-forgetting"),
    el(
      "section",
      { class: "card", "aria-labelledby": "forgetting-title" },
      el("h1", { id: "forgetting-title" }, "Forgetting"),
      el("p", { class: "quiet" }, intro),
      problem,
      place,
    ),
  );
  let last = "";
  const hurry = poll(
    async () => {
      try {
        const { rows } = await callAll("erasures", { signal });
        clearProblem(problem);
        const told = JSON.stringify(rows);
        if (told === last) return false;
        last = told;
        fill(
          place,
          table(
            ["When", "What", "State", ""],
            rows.reverse().map(row),
            "Nothing was forgotten yet. Open a source on the menu to forget it, or one of its pictures.",
            "Erasures",
          ),
        );
        return true;
      } catch (error) {
        showProblem(problem, error);
        throw error;
      }
    },
    { signal },
  );
  hurry();
}

function row(erasure) {
  const done = erasure.steps.filter((step) => step.done_at).length;
  const what =
    erasure.scope === "sample"
      ? `picture ${short(erasure.sample)} of source ${short(erasure.source_id)}`
      : `${erasure.scope} ${short(erasure.shard_id ?? erasure.source_id)}`;
  const isDone = erasure.state === "complete";
  const pill = el(
    "span",
    { class: `pill ${isDone ? "good" : "busy"}` },
    isDone ? "complete" : `${done} of ${erasure.steps.length} steps`,
  );
  return [
    moment(erasure.requested_at),
    name(what),
    pill,
    button(isDone ? "Receipt" : "Steps", () => openErasure(erasure.id), {
      "aria-label": `Show the erasure of ${what}`,
    }),
  ];
}
