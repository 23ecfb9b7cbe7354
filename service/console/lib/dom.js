/** Creates elements. Text only ever becomes text, since names and labels come from strangers. */

/** Returns an element with attributes, listeners (`onclick: f`) and children; strings become text nodes. */
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

/** Replaces the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(...present(children));
  return element;
}

/** Children may be nested lists; false and null are left out. */
const present = (children) => children.flat(Infinity).filter((child) => child || child === "");

/** A text that a stranger chose, isolated so that it cannot change the reading direction around it. */
export const name = (text) => el("bdi", { class: "name" }, text);

export const muted = (...children) => el("p", { class: "small muted" }, ...children);

export const empty = (...children) => el("p", { class: "empty" }, ...children);

export const button = (text, onclick, attributes = {}) =>
  el("button", { type: "button", onclick, ...attributes }, text);

/** A bar filled by a share from 0 to 1; the number stands beside it as text. */
export function meter(share, kind = "") {
  const filled = el("span");
  filled.style.width = `${Math.max(0, Math.min(1, share)) * 100}%`;
  return el("span", { class: `meter ${kind}`, "aria-hidden": "true" }, filled);
}

/** A card with a heading, buttons beside it, and content. */
export function card(id, heading, buttons, ...content) {
  return el(
    "section",
    { class: "card", "aria-labelledby": id },
    el("div", { class: "toolbar" }, el("h2", { id }, heading), buttons),
    content,
  );
}

/** A table with headings, or a message if it has no rows. */
export function table(headings, rows, message, caption) {
  if (!rows.length) return empty(message);
  const head = headings.map((heading) => el("th", { scope: "col" }, heading));
  const cell = (content, at) => el("td", { "data-heading": headings[at] }, content);
  return el(
    "table",
    {},
    el("caption", { class: "visually-hidden" }, caption),
    el("thead", {}, el("tr", {}, head)),
    el(
      "tbody",
      {},
      rows.map((cells) => el("tr", {}, cells.map(cell))),
    ),
  );
}

export const byId = (id) => document.getElementById(id);
