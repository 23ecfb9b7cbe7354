/** Forms: labelled fields, and buttons that show beside themselves what went wrong. */

import { button, el } from "../lib/dom.js";
import { clearProblem, showProblem } from "./problem.js";

let fields = 0;

/** Returns an input with its label and, below it, a hint. */
export function field(label, input, hint = null) {
  const id = `field-${(fields += 1)}`;
  input.id = id;
  if (hint !== null) input.setAttribute("aria-describedby", `${id}-hint`);
  return el(
    "div",
    { class: "field" },
    el("label", { for: id }, label),
    input,
    hint !== null && el("small", { class: "muted", id: `${id}-hint` }, hint),
  );
}

/** Returns a checkbox with its label. */
export const checkbox = (input, label) => el("label", { class: "checkbox" }, input, el("span", {}, label));

/** Returns a drop-down list of [value, text] pairs. */
export function dropdown(options, selected) {
  const select = el("select");
  for (const [value, text] of options) select.append(el("option", { value }, text));
  if (selected !== null && selected !== undefined) select.value = selected;
  return select;
}

export const input = (attributes = {}) => el("input", { autocomplete: "off", ...attributes });

/** Returns a form whose button runs `action`; an error is shown above the button. */
export function form(fields, text, action, { kind = "primary", isReady = () => true } = {}) {
  const problem = el("div");
  const submit = el("button", { type: "submit", class: kind }, text);
  const element = el("form", {}, fields, problem, el("div", { class: "actions" }, submit));
  const check = () => (submit.disabled = !isReady());
  element.addEventListener("input", check);
  check();
  element.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (submit.disabled) return;
    element.setAttribute("aria-busy", "true");
    await runShowingProblem(action, submit, problem);
    element.removeAttribute("aria-busy");
    check();
  });
  return element;
}

/** Returns a button that runs `action`; an error is shown beside it. */
export function actionButton(text, label, action, attributes = {}) {
  const problem = el("div");
  const run = () => runShowingProblem(action, element, problem);
  const element = button(text, run, { "aria-label": label, ...attributes });
  return el("span", {}, element, problem);
}

async function runShowingProblem(action, trigger, problem) {
  clearProblem(problem);
  trigger.disabled = true;
  try {
    await action();
  } catch (error) {
    showProblem(problem, error);
  } finally {
    trigger.disabled = false;
  }
}

/** Returns a button that copies a text to the clipboard. */
export function copyButton(text) {
  const element = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(text);
      element.textContent = "Copied";
    } catch {
      element.textContent = "Select the text and copy it";
    }
  });
  return element;
}
