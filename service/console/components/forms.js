/** Forms: labelled fields, and one way of sending them that shows what went wrong beside the button. */

import { button, el } from "../lib/dom.js";
import { clearProblem, showProblem } from "./toasts.js";

let fields = 0;

/** An input with its label and, below it, a hint that is read out after the label. */
export function field(label, input, hint = null) {
  const id = `field-${(fields += 1)}`;
  input.id = id;
  if (hint !== null) input.setAttribute("aria-describedby", `${id}-hint`);
  return el(
    "div",
    { class: "field" },
    el("label", { for: id }, label),
    input,
    hint !== null && el("small", { class: "quiet", id: `${id}-hint` }, hint),
  );
}

export function choose(options, chosen, attributes = {}) {
  const select = el("select", attributes);
  for (const [value, text] of options) select.append(el("option", { value }, text));
  if (chosen !== null && chosen !== undefined) select.value = chosen;
  return select;
}

export const input = (attributes = {}) => el("input", { autocomplete: "off", ...attributes });

/** A form of these fields whose button runs `work`; it waits, and a failure is told where it happened. */
export function form(fields, text, work, { kind = "primary", isReady = () => true } = {}) {
  const place = el("div");
  const submit = el("button", { type: "submit", class: kind }, text);
  const made = el("form", {}, fields, place, el("div", { class: "actions" }, submit));
  const check = () => (submit.disabled = !isReady());
  made.addEventListener("input", check);
  check();
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (submit.disabled) return;
    clearProblem(place);
    submit.disabled = true;
    made.setAttribute("aria-busy", "true");
    try {
      await work();
    } catch (error) {
      showProblem(place, error);
    } finally {
      made.removeAttribute("aria-busy");
      check();
    }
  });
  return made;
}

/** A button that does something at once, and tells beside itself if that failed. */
export function act(text, label, work, attributes = {}) {
  const place = el("div");
  const made = button(
    text,
    async () => {
      clearProblem(place);
      made.disabled = true;
      try {
        await work();
      } catch (error) {
        showProblem(place, error);
      } finally {
        made.disabled = false;
      }
    },
    { "aria-label": label, ...attributes },
  );
  return el("span", { class: "act" }, made, place);
}

/** A button that copies a text. */
export function copy(text, label = "Copy") {
  const made = button(label, async () => {
    try {
      await navigator.clipboard.writeText(text);
      made.textContent = "Copied";
    } catch {
      made.textContent = "Select the text and copy it";
    }
  });
  return made;
}
