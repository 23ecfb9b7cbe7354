/** Administration of tasks: the label spaces that sources belong to. */

import { call } from "../lib/api.js";
import { confirm } from "../components/confirm.js";
import { openDialog } from "../components/dialog.js";
import { button, el, fill, name, table } from "../lib/dom.js";
import { choose, field, form, input } from "../components/forms.js";
import { state } from "../lib/store.js";

const DEFAULT_BACKBONE = "vit_tiny_patch16_224.augreg_in21k_ft_in1k";

export function showTasks(look) {
  const rows = state.tasks.map((task) => [
    name(task.name),
    el("code", {}, task.backbone),
    task.labels === null ? "any" : String(task.labels.length),
    `${task.composition}${task.weighting === "none" ? "" : `, ${task.weighting}`}`,
    button("Remove…", () => confirmRemoval(task, look), {
      class: "danger plain",
      "aria-label": `Remove the task ${task.name}`,
    }),
  ]);
  return el(
    "section",
    { class: "card", "aria-labelledby": "tasks-title" },
    el(
      "div",
      { class: "bar" },
      el("h2", { id: "tasks-title" }, "Tasks"),
      button("Make a task", () => open(look)),
    ),
    table(
      ["Name", "Backbone", "Labels", "Answers by", ""],
      rows,
      "No task yet. Make one: sources are uploaded into a task.",
      "Tasks",
    ),
  );
}

function confirmRemoval(task, look) {
  const meaning = [name(task.name), " will be removed. That is refused as long as it has sources or releases."];
  confirm("Remove this task?", meaning, "Remove the task", async () => {
    await call("DELETE", `tasks/${task.id}`);
    await look();
  });
}

function open(look) {
  const { body, close } = openDialog("Make a task");
  const title = input({ required: true, maxlength: "200" });
  const backbone = input({ required: true, value: DEFAULT_BACKBONE });
  const size = input({ type: "number", min: "1", placeholder: "the backbone's own" });
  const labels = el("textarea", { rows: "3" });
  const composition = choose(
    ["average", "concat", "vote"].map((one) => [one, one]),
    "average",
  );
  const weighting = choose(
    ["none", "prototypes"].map((one) => [one, one]),
    "none",
  );
  const epochs = input({ type: "number", min: "1", placeholder: "the trainer's own" });
  fill(
    body,
    form(
      [
        field("Name", title),
        field("Backbone", backbone, "As timm names it. It stays for the life of the task."),
        field("Labels", labels, "One on each line, if sources may bring no others; empty for whatever they bring."),
        el("div", { class: "row" }, field("Composition", composition), field("Weighting", weighting)),
        el("div", { class: "row" }, field("Picture size", size, "Pixels of a side."), field("Epochs", epochs)),
      ],
      "Make the task",
      async () => {
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
        await look();
        close();
      },
    ),
  );
}
