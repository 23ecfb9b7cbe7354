/** Dialogs: the browser's own, so that focus, Escape and screen readers work as usual. */

import { button, el, fill } from "../lib/dom.js";
import { actionButton } from "./forms.js";

let count = 0;

/** Opens a dialog. Returns its body, a function that closes it, and a signal that aborts when it closes. */
export function openDialog(title, { kind = "" } = {}) {
  const closing = new AbortController();
  const id = `dialog-${(count += 1)}`;
  const body = el("div", { class: "dialog-body" });
  const heading = el("h2", { id, tabindex: "-1" }, title);
  const close = () => dialog.close();
  const head = el("div", { class: "toolbar" }, heading, button("Close", close, { class: "plain" }));
  const dialog = el("dialog", { class: kind, "aria-labelledby": id }, head, body);
  dialog.addEventListener("close", () => {
    closing.abort();
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
  heading.focus();
  return { body, close, signal: closing.signal };
}

/** Asks for confirmation; the button runs `action` and closes the dialog. */
export function confirm(title, consequence, buttonText, action) {
  const { body, close } = openDialog(title);
  const runAndClose = async () => {
    await action();
    close();
  };
  const confirmButton = actionButton(buttonText, null, runAndClose, { class: "danger" });
  fill(body, el("p", {}, consequence), el("div", { class: "actions" }, confirmButton));
}
