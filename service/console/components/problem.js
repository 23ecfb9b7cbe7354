/** Shows an error: what went wrong and what to do about it. */

import { Unreachable } from "../lib/api.js";
import { button, el, fill, muted } from "../lib/dom.js";

const ADVICE = {
  401: "Sign in with a valid token.",
  403: "Ask the owner of the source, or an admin.",
  404: "It may have been forgotten, or your right to it was revoked. Check the list of sources.",
  408: "Send it again.",
  409: "Resolve the conflict, and try again.",
  413: "Send less at once.",
  415: "Send a file of another type.",
  422: "Correct the input, and try again.",
  429: "Wait a moment, then try again.",
  500: "Try again. If it fails again, give the request id below to the operator.",
  503: "Try again in a moment.",
};

/** Fills an element with the error, and with a button if it can be retried. */
export function showProblem(element, error, retry = null) {
  if (error.name === "AbortError") return;
  const isOffline = error instanceof Unreachable;
  if (!isOffline && error.status === undefined) console.error(error); // a bug of this page
  const title = isOffline ? "No connection" : (error.title ?? "This page failed");
  const hasAdvice = /[:;] /.test(error.message); // most messages of the service say what to do
  const advice = isOffline ? "This is retried once the service answers." : !hasAdvice && ADVICE[error.status];
  fill(
    element,
    el(
      "div",
      { class: "problem", role: "alert" },
      el("strong", {}, title),
      el("p", {}, sentence(error.message)),
      advice && el("p", { class: "muted" }, advice),
      error.status >= 500 && error.requestId && muted(`Request ${error.requestId}`),
      retry && button("Try again", retry),
    ),
  );
}

export const clearProblem = (element) => element.replaceChildren();

function sentence(text) {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}
