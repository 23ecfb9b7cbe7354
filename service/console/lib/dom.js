/** Makes elements. Text only ever becomes text: names and labels come from strangers. */

/** An element with attributes, listeners (`onclick: f`) and children; texts become text nodes. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else element.setAttribute(name, value);
  }
  element.append(...present(children));
  return element;
}

/** Puts these in the place of whatever an element holds. */
export function fill(element, ...children) {
  element.replaceChildren(...present(children));
  return element;
}

/** Children may come in lists, and those that are not wanted as false or null. */
const present = (children) => children.flat(Infinity).filter((child) => child || child === "");

/** A text of a stranger, kept from turning the reading direction of what stands around it. */
export const name = (text) => el("bdi", { class: "name" }, text);

export const button = (text, onclick, attributes = {}) =>
  el("button", { type: "button", onclick, ...attributes }, text);

/** A bar that fills by a share from 0 to 1; what it shows stands beside it as text. */
export function bar(share, kind = "") {
  const filled = el("span");
  filled.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return el("span", { class: `share ${kind}`, "aria-hidden": "true" }, filled);
}

/** A table with headings, or what to say when it has no rows. */
export function table(headings, rows, empty, caption) {
  if (!rows.length) return el("p", { class: "empty" }, empty);
  const head = el(
    "tr",
    {},
    headings.map((heading) => el("th", { scope: "col" }, heading)),
  );
  const body = rows.map((cells) =>
    el(
      "tr",
      {},
      cells.map((cell, at) => el("td", { "data-heading": headings[at] }, cell)),
    ),
  );
  return el("table", {}, el("caption", { class: "unseen" }, caption), el("thead", {}, head), el("tbody", {}, body));
}

export const byId = (id) => document.getElementById(id);
