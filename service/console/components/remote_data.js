/** Shows data of the service: a table that can be reloaded, or a document that is polled. */

import { callAll } from "../lib/api.js";
import { el, fill, table } from "../lib/dom.js";
import { poll } from "../lib/polling.js";
import { clearProblem, showProblem } from "./problem.js";

/** Returns an element with a table of all rows of a list, and a function that reads them again. */
export function remoteTable(path, { query, signal, headings, row, message, caption, onLoad = () => {} }) {
  const element = el("div");
  async function reload() {
    try {
      const { rows } = await callAll(path, { query, signal });
      fill(element, table(headings, rows.map(row), message, caption));
      onLoad(rows);
    } catch (error) {
      showProblem(element, error, reload);
    }
  }
  reload();
  return { element, reload };
}

/** Polls `read` and draws each new result; errors are shown in `problem`. Returns a function to poll now. */
export function watch(read, draw, { problem, ...options }) {
  let last = "";
  const pollNow = poll(async () => {
    let found;
    try {
      found = await read();
    } catch (error) {
      showProblem(problem, error);
      throw error;
    }
    clearProblem(problem);
    const text = JSON.stringify(found);
    if (text === last) return false;
    last = text;
    draw(found);
    return true;
  }, options);
  pollNow();
  return pollNow;
}
