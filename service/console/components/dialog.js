/** Dialogs: the browser's own, so that focus, Escape and screen readers work as people know them. */

import { button, el } from "../lib/dom.js";

let count = 0;

/** Opens a dialog; it gives a body to fill, a way to close it, and a signal that ends with it. */
export function openDialog(title, { kind = "" } = {}) {
  const ending = new AbortController();
  const id = `dialog-${(count += 1)}`;
  const body = el("div", { class: "dialog-body" });
  const heading = el("h2", { id, tabindex: "-1" }, title);
  const close = () => dialog.close();
  const head = el("div", { class: "bar" }, heading, button("Close", close, { class: "plain" }));
  const dialog = el("dialog", { class: kind, "aria-labelledby": id }, head, body);
  dialog.addEventListener("close", () => {
    ending.abort();
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();
  heading.focus();
  return { body, close, signal: ending.signal };
}
