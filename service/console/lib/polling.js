/** Polls the service: only while the tab is visible, and less often the longer nothing changes. */

const BACKOFF = 1.6;

/** Calls `read`, which returns whether something changed, until the signal aborts; returns a function to poll now. */
export function poll(read, { signal, minMs = 1000, maxMs = 20000 }) {
  let delayMs = minMs;
  let timer = null;
  let running = null;
  let isRequested = false; // while a poll was running: its data may be too old

  function run() {
    clearTimeout(timer);
    if (signal.aborted) return Promise.resolve();
    if (running !== null) isRequested = true;
    else running = readOnce().finally(() => (running = null));
    return running;
  }

  async function readOnce() {
    do {
      isRequested = false;
      try {
        delayMs = (await read()) ? minMs : Math.min(maxMs, delayMs * BACKOFF);
      } catch {
        delayMs = Math.min(maxMs, delayMs * 2); // `read` has shown the problem
      }
    } while (isRequested && !signal.aborted);
    if (!document.hidden && !signal.aborted) timer = setTimeout(run, delayMs);
  }

  function pollNow() {
    delayMs = minMs;
    return run();
  }

  const onVisibility = () => (document.hidden ? clearTimeout(timer) : pollNow());
  document.addEventListener("visibilitychange", onVisibility);
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", onVisibility);
  });
  return pollNow;
}
