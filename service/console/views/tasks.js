/** Administration of tasks. */

import { call } from "../lib/api.js";
import { button, card, el, fill, name, table } from "../lib/dom.js";
import { state } from "../lib/store.js";
import { confirm, openDialog } from "../components/dialog.js";
import { dropdown, field, form, input } from "../components/forms.js";

const DEFAULT_BACKBONE = "vit_tiny_patch16_224.augreg_in21k_ft_in1k";

export function showTasks(reload) {
  const rows = state.tasks.map((task) => [
    name(task.name),
    el("code", {}, task.backbone),
    task.labels === null ? "any" : String(task.labels.length),
    `${task.composition}${task.weighting === "none" ? "" : `, ${task.weighting}`}`,
    button("Delete…", () => confirmDeletion(task, reload), {
      class: "danger plain",
      "aria-label": `Delete the task ${task.name}`,
    }),
  ]);
  const headings = ["Name", "Backbone", "Labels", "Composition", ""];
  const message = "There is no task yet. Create one: every source belongs to a task.";
  const create = button("Create a task", () => openCreate(reload));
  return card("tasks-title", "Tasks", create, table(headings, rows, message, "Tasks"));
}

function confirmDeletion(task, reload) {
  const consequence = [name(task.name), " will be deleted. A task with sources or releases cannot be deleted."];
  confirm("Delete this task?", consequence, "Delete the task", async () => {
    await call("DELETE", `tasks/${task.id}`);
    await reload();
  });
}

function openCreate(reload) {
  const { body, close } = openDialog("Create a task");
  const title = input({ required: true, maxlength: "200" });
  const backbone = input({ required: true, value: DEFAULT_BACKBONE });
  const size = input({ type: "number", min: "1", placeholder: "the backbone's default" });
  const labels = el("textarea", { rows: "3" });
  const list = (...values) =>
    dropdown(
      values.map((value) => [value, value]),
      values[0],
    );
  const composition = list("average", "concat", "vote");
  const weighting = list("none", "prototypes");
  const epochs = input({ type: "number", min: "1", placeholder: "the trainer's default" });
  const fields = [
    field("Name", title),
    field("Backbone", backbone, "Its name in timm. It cannot be changed later."),
    field("Labels", labels, "One per line. Leave it empty to allow any label."),
    el("div", { class: "row" }, field("Composition", composition), field("Weighting", weighting)),
    el("div", { class: "row" }, field("Picture size", size, "Pixels per side."), field("Epochs", epochs)),
  ];
  const create = async () => {
    const lines = labels.value
      .split("\n")
      .map((line) => line.trim())
      .filter(Boolean);
    await call("POST", "tasks", {
      json: {
        name: title.value.trim(),
        backbone: backbone.value.trim(),
        size: size.value ? Number(size.value) : null,
        labels: lines.length ? lines : null,
        composition: composition.value,
        weighting: weighting.value,
        recipe: epochs.value ? { epochs: Number(epochs.value) } : {},
      },
    });
    await reload();
    close();
  };
  fill(body, form(fields, "Create the task", create));
}
