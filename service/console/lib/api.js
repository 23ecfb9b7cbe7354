/** The HTTP API: every call sends the token, and every failure is a Problem or Unreachable. */

import { endSession, token } from "./session.js";

const MAX_ROWS = 1000; // of a list that is read as a whole
const MAX_PAGE_ROWS = 200;
const PROXY_ERRORS = [502, 504];

/** Dispatches `lost` when the service cannot be reached, and `found` when it answers again. */
export const connection = new EventTarget();
let isLost = false;

/** An error response of the service (RFC 9457). */
export class Problem extends Error {
  constructor(status, problem) {
    super(problem.detail || "the service gave no reason");
    this.status = status;
    this.title = problem.title || `Error ${status}`;
    this.requestId = problem.request_id;
  }
}

/** The service did not answer. */
export class Unreachable extends Error {
  constructor() {
    super("the service does not answer");
  }
}

/** Returns the parsed response of one call; null if it has no body. */
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
    throw reportLost();
  }
  return parse(response.status, text);
}

/** Returns all rows of a list, page by page; `isCut` says that there are more than `limit`. */
export async function callAll(path, { query = {}, signal, limit = MAX_ROWS } = {}) {
  const rows = [];
  let after = null;
  do {
    const page = await call("GET", path, {
      query: { ...query, after, limit: Math.min(limit - rows.length, MAX_PAGE_ROWS) },
      signal,
    });
    rows.push(...page.items);
    after = page.next;
  } while (after !== null && rows.length < limit);
  return { rows, isCut: after !== null };
}

/** Sends a file as the body and reports the progress, which fetch cannot. */
export function send(path, { query, file, signal, onProgress }) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", withQuery(path, query));
    request.setRequestHeader("Authorization", `Bearer ${token()}`);
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.upload.addEventListener("progress", (event) => onProgress(event.loaded, event.total));
    request.addEventListener("load", () => {
      try {
        resolve(parse(request.status, request.responseText));
      } catch (error) {
        reject(error);
      }
    });
    request.addEventListener("error", () => reject(reportLost()));
    request.addEventListener("abort", () => reject(new DOMException("stopped", "AbortError")));
    signal.addEventListener("abort", () => request.abort());
    request.send(file);
  });
}

function parse(status, text) {
  if (PROXY_ERRORS.includes(status)) throw reportLost();
  if (isLost) {
    isLost = false;
    connection.dispatchEvent(new Event("found"));
  }
  let document = null;
  try {
    document = text ? JSON.parse(text) : null;
  } catch {
    throw new Problem(status, { detail: "the response is not from this service: check the proxy in front of it" });
  }
  if (status < 400) return document;
  const problem = new Problem(status, document ?? {});
  if (status === 401) endSession(problem);
  throw problem;
}

function reportLost() {
  if (!isLost) {
    isLost = true;
    connection.dispatchEvent(new Event("lost"));
  }
  return new Unreachable();
}

/** Paths are relative to the page, so that it also works below a prefix. */
function withQuery(path, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return given.length ? `${path}?${new URLSearchParams(given)}` : path;
}
