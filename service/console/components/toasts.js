/** Tells what happened: quietly when it went well, and with what to do when it did not. */

import { call, connection, Unreachable } from "../lib/api.js";
import { button, byId, el, fill } from "../lib/dom.js";

const NOTICE_MS = 6000;
const FIRST_LOOK_MS = 1000;
const LAST_LOOK_MS = 15000;
const ADVICE = {
  401: "Sign in with a token that is still good.",
  403: "Ask the owner of the source, or an admin.",
  404: "It may have been forgotten, or a right taken back. Look at the menu again.",
  408: "Send it again.",
  409: "Change what collides, and try again.",
  413: "Send less at once.",
  415: "Send a file of another kind.",
  422: "Change what is named here, and try again.",
  429: "Wait a moment, then try again.",
  500: "Try again; if it stays, tell the operator the number below.",
  503: "Try again in a moment.",
};

/** Says one sentence, which goes by itself. */
export function say(text) {
  const notice = el("p", {}, text);
  byId("notices").append(notice);
  setTimeout(() => notice.remove(), NOTICE_MS);
}

/** Fills a place with what went wrong and what to do about it, and, if there is a way, with a button to try again. */
export function showProblem(place, error, again = null) {
  if (error.name === "AbortError") return;
  const isAway = error instanceof Unreachable;
  if (!isAway && error.status === undefined) console.error(error); // a fault of this page
  const title = isAway ? "No connection" : (error.title ?? "This page failed");
  const isAdvised = error.message.includes(": "); // the service says what is wrong, and often what to do about it
  const advice = isAway ? "It is tried again by itself once the service answers." : !isAdvised && ADVICE[error.status];
  fill(
    place,
    el(
      "div",
      { class: "problem", role: "alert" },
      el("strong", {}, title),
      el("p", {}, sentence(error.message)),
      advice && el("p", { class: "quiet" }, advice),
      error.status >= 500 && error.requestId && el("p", { class: "small quiet" }, `Request ${error.requestId}`),
      again && button("Try again", again),
    ),
  );
}

export const clearProblem = (place) => place.replaceChildren();

/** Shows a lost connection at the top of the page, and looks for it until it is back. */
export function watchConnection() {
  const banner = byId("banner");
  let timer = null;
  let delayMs = FIRST_LOOK_MS;

  async function look() {
    clearTimeout(timer);
    try {
      await call("GET", "healthz");
    } catch {
      delayMs = Math.min(LAST_LOOK_MS, delayMs * 2);
      timer = setTimeout(look, delayMs);
    }
  }

  connection.addEventListener("lost", () => {
    const text = "The service does not answer. What you see may be old; it is looked for until it is back.";
    fill(banner, el("span", {}, text), button("Look now", look));
    banner.hidden = false;
    delayMs = FIRST_LOOK_MS;
    timer = setTimeout(look, delayMs);
  });
  connection.addEventListener("found", () => {
    clearTimeout(timer);
    banner.hidden = true;
    say("Connected again.");
  });
  window.addEventListener("online", () => banner.hidden || look());
}

function sentence(text) {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(whole) ? whole : `${whole}.`;
}
