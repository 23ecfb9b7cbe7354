/** Looks again and again, politely: only while the tab is seen, and more rarely the longer nothing changes. */

const SLOWER = 1.6;

/** Calls `look`, which returns whether something has changed, until the signal ends it; returns a way to look now. */
export function poll(look, { signal, eagerMs = 1000, patientMs = 20000 }) {
  let delayMs = eagerMs;
  let timer = null;
  let looking = null; // the look that is under way
  let isWanted = false; // somebody asked while it was: what it finds may be too old for them

  function run() {
    clearTimeout(timer);
    if (signal.aborted) return Promise.resolve();
    if (looking !== null) isWanted = true;
    else looking = lookOnce().finally(() => (looking = null));
    return looking;
  }

  async function lookOnce() {
    do {
      isWanted = false;
      try {
        delayMs = (await look()) ? eagerMs : Math.min(patientMs, delayMs * SLOWER);
      } catch {
        delayMs = Math.min(patientMs, delayMs * 2); // it was shown where it happened
      }
    } while (isWanted && !signal.aborted);
    if (!document.hidden && !signal.aborted) timer = setTimeout(run, delayMs);
  }

  function hurry() {
    delayMs = eagerMs;
    return run();
  }

  const onSeen = () => (document.hidden ? clearTimeout(timer) : hurry());
  document.addEventListener("visibilitychange", onSeen);
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    document.removeEventListener("visibilitychange", onSeen);
  });
  return hurry;
}
