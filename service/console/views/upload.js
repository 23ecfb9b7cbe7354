/** Uploads: a new source, or more pictures for an existing one, with a progress bar. */

import { send } from "../lib/api.js";
import { button, el, fill, muted, name } from "../lib/dom.js";
import { bytes, plural, wholePercent } from "../lib/format.js";
import { isAdmin, state } from "../lib/store.js";
import { openDialog } from "../components/dialog.js";
import { checkbox, dropdown, field, form, input } from "../components/forms.js";

const FORMATS = "A zip or tar with one folder for each label, a WebDataset tar, or a CSV file with its pictures.";

export function openUpload(reload) {
  const task = dropdown(
    state.tasks.map((one) => [one.id, one.name]),
    state.taskId,
  );
  const title = input({ required: true, maxlength: "200" });
  const users = [...state.users.values()].filter((user) => !user.is_group && user.id !== state.me.id);
  const owner = dropdown([["", "you"], ...users.map((user) => [user.id, user.name])], "");
  const fields = [
    field("Name", title),
    el("div", { class: "row" }, field("Task", task), isAdmin() && field("Owner", owner)),
  ];
  const query = () => ({ task: task.value, name: title.value.trim(), owner: owner.value });
  open("Upload a source", fields, "sources", query, reload);
}

export function openAddPictures(source, reload) {
  const readmit = el("input", { type: "checkbox" });
  const hint = ["The pictures become new shards of ", name(source.name), ". Existing shards do not change."];
  const fields = [
    el("p", { class: "muted" }, hint),
    source.rights.includes("forget") && checkbox(readmit, "Accept pictures that were forgotten before"),
  ];
  const query = () => ({ readmit: readmit.checked ? "true" : "" });
  open("Add pictures", fields, `sources/${source.id}/samples`, query, reload);
}

function open(title, fields, path, query, reload) {
  const { body, close, signal } = openDialog(title);
  const file = el("input", { type: "file", required: true, accept: ".zip,.tar,.gz,.tgz,.bz2,.xz" });
  const shards = input({ type: "number", min: "1", max: "1000", value: "1", required: true });
  const skip = el("input", { type: "checkbox" });
  const progress = el("div", { "aria-live": "polite" });
  const shardHint = "Parts that are trained separately. More shards make it cheaper to forget a picture.";
  const allFields = [
    fields,
    field("Archive", file, FORMATS),
    field("Shards", shards, shardHint),
    checkbox(skip, "Skip unreadable pictures instead of refusing the upload"),
    progress,
  ];
  const upload = async () => {
    const onProgress = showProgress(progress, file.files[0].size);
    try {
      const parameters = { ...query(), shards: shards.value, unreadable: skip.checked ? "skip" : "refuse" };
      const admission = await send(path, { query: parameters, file: file.files[0], signal, onProgress });
      await reload();
      const done = button("Done", close, { class: "primary" });
      fill(body, showAdmission(admission), el("div", { class: "actions" }, done));
    } catch (error) {
      fill(progress);
      throw error;
    }
  };
  fill(body, form(allFields, "Upload", upload));
}

function showProgress(element, size) {
  const bar = el("progress", { max: "1", value: "0", "aria-label": "Upload" });
  const text = muted("Uploading…");
  fill(element, bar, text);
  return (loaded, total) => {
    bar.value = loaded / (total || size || 1);
    const share = `${bytes(loaded)} of ${bytes(total)} (${wholePercent(loaded / total)})`;
    fill(text, loaded < total ? share : "Uploaded. The service is checking the pictures…");
  };
}

function showAdmission(admission) {
  const skipped = admission.skipped_files.map((one) => el("li", {}, name(one.name), `: ${one.reason}`));
  const pictures = `${plural(admission.samples, "picture")} (${bytes(admission.size_bytes)})`;
  const shards = plural(admission.shards.length, "shard");
  return [
    el("p", {}, `Added ${pictures} in ${shards}. Training starts when a worker is free.`),
    admission.skipped > 0 && [
      el("p", {}, `Skipped ${plural(admission.skipped, "file")}:`),
      el("ul", { class: "small" }, skipped),
    ],
  ];
}
