/** Shows a banner while the service cannot be reached, and a toast when it answers again. */

import { call, connection } from "../lib/api.js";
import { button, byId, el, fill } from "../lib/dom.js";

const TOAST_MS = 6000;
const MIN_RETRY_MS = 1000;
const MAX_RETRY_MS = 15000;

export function watchConnection() {
  const banner = byId("banner");
  let timer = null;
  let delayMs = MIN_RETRY_MS;

  async function retry() {
    clearTimeout(timer);
    try {
      await call("GET", "healthz");
    } catch {
      delayMs = Math.min(MAX_RETRY_MS, delayMs * 2);
      timer = setTimeout(retry, delayMs);
    }
  }

  connection.addEventListener("lost", () => {
    const text = "The service does not answer. This page may be out of date. Retrying…";
    fill(banner, el("span", {}, text), button("Retry now", retry));
    banner.hidden = false;
    delayMs = MIN_RETRY_MS;
    timer = setTimeout(retry, delayMs);
  });
  connection.addEventListener("found", () => {
    clearTimeout(timer);
    banner.hidden = true;
    showToast("Connected again.");
  });
  window.addEventListener("online", () => banner.hidden || retry());
}

/** Shows a short message that disappears by itself. */
function showToast(text) {
  const toast = el("p", {}, text);
  byId("toasts").append(toast);
  setTimeout(() => toast.remove(), TOAST_MS);
}
