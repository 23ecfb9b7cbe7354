/** Talks to the service: every call carries the token, and every failure is a Problem or Unreachable. */

import { endSession, token } from "./session.js";

const MOST_ROWS = 1000; // of a list that is read as a whole
const PROXY_FAILED = [502, 504];

/** Tells `lost` when the service cannot be reached, and `found` when it answers again. */
export const connection = new EventTarget();
let isLost = false;

/** What the service refused, in its own words (RFC 9457). */
export class Problem extends Error {
  constructor(status, told) {
    super(told.detail || "the service gave no reason");
    this.status = status;
    this.title = told.title || `Error ${status}`;
    this.requestId = told.request_id;
  }
}

/** The service did not answer at all. */
export class Unreachable extends Error {
  constructor() {
    super("the service does not answer");
  }
}

/** The answer to one call: a document, or null if it has none. */
export async function call(method, path, { query, json, form, signal } = {}) {
  const headers = token() ? { Authorization: `Bearer ${token()}` } : {};
  if (json !== undefined) headers["Content-Type"] = "application/json";
  let response, text;
  try {
    const body = json === undefined ? form : JSON.stringify(json);
    response = await fetch(withQuery(path, query), { method, headers, body, signal, cache: "no-store" });
    text = await response.text();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw lost();
  }
  return read(response.status, text);
}

/** All rows of a list, page by page; `isCut` says that there were too many. */
export async function callAll(path, { query = {}, signal, most = MOST_ROWS } = {}) {
  const rows = [];
  let after = null;
  do {
    const page = await call("GET", path, {
      query: { ...query, after, limit: Math.min(most - rows.length, 200) },
      signal,
    });
    rows.push(...page.items);
    after = page.next;
  } while (after !== null && rows.length < most);
  return { rows, isCut: after !== null };
}

/** Sends a file as the body, and tells how much of it has left; fetch cannot tell that. */
export function send(path, { query, file, signal, tell }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", withQuery(path, query));
    request.setRequestHeader("Authorization", `Bearer ${token()}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.addEventListener("progress", (event) => tell(event.loaded, event.total));
    request.addEventListener("load", () => {
      try {
        resolve(read(request.status, request.responseText));
      } catch (error) {
        reject(error);
      }
    });
    request.addEventListener("error", () => reject(lost()));
    request.addEventListener("abort", () => reject(new DOMException("stopped", "AbortError")));
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

function read(status, text) {
  if (PROXY_FAILED.includes(status)) throw lost();
  if (isLost) {
    isLost = false;
    connection.dispatchEvent(new Event("found"));
  }
  let told = null;
  try {
    told = text ? JSON.parse(text) : null;
  } catch {
    told = { title: `Error ${status}`, detail: "what answered is not this service: look at the proxy in front of it" };
    throw new Problem(status, told);
  }
  if (status < 400) return told;
  const problem = new Problem(status, told ?? {});
  if (status === 401) endSession(problem);
  throw problem;
}

function lost() {
  if (!isLost) {
    isLost = true;
    connection.dispatchEvent(new Event("lost"));
  }
  return new Unreachable();
}

/** Relative to the page, so that it also works below a prefix. */
function withQuery(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}
