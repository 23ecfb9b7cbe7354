/** Uploads: a new source, or more pictures for one that is there, with a bar that tells how far it has come. */

import { send } from "../lib/api.js";
import { openDialog } from "../components/dialog.js";
import { button, el, fill, name } from "../lib/dom.js";
import { choose, field, form, input } from "../components/forms.js";
import { isAdmin, state } from "../lib/store.js";
import { bytes, many, wholePercent } from "../lib/format.js";

const LAYOUTS =
  "A zip or tar with one folder for each label; also a tar of WebDataset pairs, or a CSV with its images.";

export function openUpload(look) {
  const task = choose(
    state.tasks.map((one) => [one.id, one.name]),
    state.taskId,
  );
  const title = input({ required: true, maxlength: "200" });
  const people = [...state.users.values()].filter((user) => !user.is_group && user.id !== state.me.id);
  const owner = choose([["", "you"], ...people.map((user) => [user.id, user.name])], "");
  const fields = [
    field("Name", title),
    el("div", { class: "row" }, field("Task", task), isAdmin() && field("Owner", owner)),
  ];
  open(
    "Upload a source",
    fields,
    "sources",
    () => ({ task: task.value, name: title.value.trim(), owner: owner.value }),
    look,
  );
}

export function openAddition(source, look) {
  const readmit = el("input", { type: "checkbox" });
  const fields = [
    el("p", { class: "quiet" }, "They form new shards of ", name(source.name), ". What is trained is not touched."),
    source.rights.includes("forget") &&
      el("label", { class: "tick" }, readmit, el("span", {}, "Take pictures back in that were forgotten")),
  ];
  open(
    "Add pictures",
    fields,
    `sources/${source.id}/samples`,
    () => ({ readmit: readmit.checked ? "true" : "" }),
    look,
  );
}

function open(title, fields, path, said, look) {
  const { body, close, signal } = openDialog(title);
  const file = el("input", { type: "file", required: true, accept: ".zip,.tar,.gz,.tgz,.bz2,.xz" });
  const shards = input({ type: "number", min: "1", max: "1000", value: "1", required: true });
  const skip = el("input", { type: "checkbox" });
  const progress = el("div", { "aria-live": "polite" });
  const all = [
    fields,
    field("Archive", file, LAYOUTS),
    field(
      "Shards",
      shards,
      "Parts that are trained by themselves. With more of them, forgetting a picture costs less training.",
    ),
    el(
      "label",
      { class: "tick" },
      skip,
      el("span", {}, "Leave out pictures that cannot be read, instead of refusing all"),
    ),
    progress,
  ];
  fill(
    body,
    form(all, "Upload", async () => {
      const show = showSending(progress, file.files[0].size);
      try {
        const query = { ...said(), shards: shards.value, unreadable: skip.checked ? "skip" : "refuse" };
        const admission = await send(path, { query, file: file.files[0], signal, tell: show });
        await look();
        fill(
          body,
          showAdmission(admission),
          el("div", { class: "actions" }, button("Done", close, { class: "primary" })),
        );
      } catch (error) {
        fill(progress);
        throw error;
      }
    }),
  );
}

function showSending(place, total) {
  const sent = el("progress", { max: "1", value: "0", "aria-label": "Upload" });
  const text = el("p", { class: "small quiet" }, "Sending…");
  fill(place, sent, text);
  return (loaded, whole) => {
    sent.value = loaded / (whole || total || 1);
    fill(
      text,
      loaded < whole
        ? `${bytes(loaded)} of ${bytes(whole)} sent (${wholePercent(loaded / whole)})`
        : "All sent. Every picture is looked at now…",
    );
  };
}

function showAdmission(admission) {
  const skipped = admission.skipped_files.map((one) => el("li", {}, name(one.name), `: ${one.reason}`));
  return [
    el(
      "p",
      {},
      `${many(admission.samples, "picture")} (${bytes(admission.size_bytes)}) taken in, `,
      `in ${many(admission.shards.length, "shard")}. `,
      "Training begins as soon as a worker is free; the menu shows how far it is.",
    ),
    admission.skipped > 0 && el("p", {}, `${many(admission.skipped, "file")} left out:`),
    admission.skipped > 0 && el("ul", { class: "small" }, skipped),
  ];
}
