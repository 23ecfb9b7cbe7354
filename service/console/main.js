/** The page: sign-in and sign-out, navigation, and the polling of the state. */

import { connection } from "./lib/api.js";
import { button, byId, el, fill, name } from "./lib/dom.js";
import { poll } from "./lib/polling.js";
import { removeToken, session, storeToken, token } from "./lib/session.js";
import { isAdmin, loadMe, may, mayUpload, refresh, resetState, state, store } from "./lib/store.js";
import { watchConnection } from "./components/connection_banner.js";
import { copyButton } from "./components/forms.js";
import { clearProblem, showProblem } from "./components/problem.js";
import { startErasures } from "./views/erasures.js";
import { clearPictures, startPredict } from "./views/predict.js";
import { showReleases } from "./views/releases.js";
import { startSourceList } from "./views/source_list.js";
import { showTasks } from "./views/tasks.js";
import { showUsers } from "./views/users.js";

const PAGES = { predict: "Predict", erasures: "Erasures", admin: "Admin" };
const isAvailable = {
  predict: () => true,
  erasures: () => mayUpload() || state.sources.some((source) => may(source, "forget")),
  admin: isAdmin,
};

let signedIn = new AbortController(); // aborts at sign-out
let onErasures = new AbortController(); // aborts when the page of erasures is left
let pollNow = async () => {};

/** Reads the state from the service, and shows a problem above the list of sources. */
async function readState(options) {
  try {
    const isDifferent = await refresh(options);
    clearProblem(byId("sources-problem"));
    return isDifferent;
  } catch (error) {
    if (!state.hasLoaded || error.status) showProblem(byId("sources-problem"), error);
    throw error;
  }
}

const reload = (options) => (options?.withDetails ? readState(options) : pollNow());

async function signIn() {
  await loadMe();
  signedIn = new AbortController();
  byId("sign-in").hidden = true;
  byId("top").hidden = false;
  drawAccount();
  showPage();
  pollNow = poll(readState, { signal: signedIn.signal });
  await pollNow();
}

function signOut(problem = null) {
  signedIn.abort();
  onErasures.abort();
  removeToken();
  document.querySelectorAll("dialog").forEach((dialog) => dialog.close());
  clearPictures();
  resetState();
  store.dispatchEvent(new Event("change"));
  for (const page of Object.keys(PAGES)) byId(`page-${page}`).hidden = true;
  byId("page-erasures").replaceChildren();
  byId("page-admin").replaceChildren();
  delete byId("pages").dataset.shown;
  byId("top").hidden = true;
  byId("sign-in").hidden = false;
  if (problem === null) clearProblem(byId("sign-in-problem"));
  else showProblem(byId("sign-in-problem"), problem);
  byId("token").focus();
}

function drawAccount() {
  const { me } = state;
  const hint = el("p", { class: "small" }, "Your id, for users who grant you a source:");
  const account = el(
    "details",
    {},
    el("summary", {}, name(me.name), " ", el("span", { class: "pill idle" }, me.role)),
    el("div", { class: "account-menu" }, hint, el("code", {}, me.id), copyButton(me.id)),
  );
  fill(
    byId("account"),
    account,
    button("Sign out", () => signOut()),
  );
}

/** Shows the page that the URL names, if the user may see it. */
function showPage() {
  if (state.me === null) return;
  if (location.hash && !location.hash.startsWith("#/") && byId("pages").dataset.shown) return; // an anchor of this page
  const requested = location.hash.slice(2);
  const shown = isAvailable[requested]?.() ? requested : "predict";
  for (const page of Object.keys(PAGES)) byId(`page-${page}`).hidden = page !== shown;
  document.title = shown === "predict" ? "alacarte" : `${PAGES[shown]} · alacarte`;
  drawNavigation(shown);
  onErasures.abort();
  onErasures = new AbortController();
  if (shown === "erasures") startErasures(onErasures.signal);
}

function drawNavigation(shown) {
  const available = Object.keys(PAGES).filter((page) => isAvailable[page]());
  const links = available.map((page) =>
    el("a", { href: `#/${page}`, "aria-current": page === shown ? "page" : null }, PAGES[page]),
  );
  const pages = byId("pages");
  if (pages.children.length !== links.length || pages.dataset.shown !== shown) fill(pages, links);
  pages.dataset.shown = shown;
  pages.hidden = links.length < 2;
}

let drawnAdmin = "";

function drawAdmin() {
  if (!isAdmin()) return;
  const current = JSON.stringify([state.tasks, [...state.users], state.releases, state.taskId]);
  if (current === drawnAdmin && byId("page-admin").children.length) return;
  drawnAdmin = current;
  fill(byId("page-admin"), showTasks(reload), showUsers(), showReleases(reload));
}

/** Signs in with the stored token, and shows a problem beside the form; `ended` shows a rejected token. */
async function trySignIn() {
  try {
    await signIn();
    return true;
  } catch (error) {
    if (error.status === 401) return false;
    byId("sign-in").hidden = false;
    showProblem(byId("sign-in-problem"), error);
    return false;
  }
}

byId("sign-in-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  clearProblem(byId("sign-in-problem"));
  storeToken(byId("token").value.trim());
  if (!(await trySignIn())) return;
  byId("token").value = "";
  byId("main").focus();
});
session.addEventListener("ended", (event) => signOut(event.detail));
connection.addEventListener("found", () => {
  if (state.me !== null) readState({ withDetails: true });
  else if (token()) trySignIn();
});
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && state.me !== null) readState({ withDetails: true }).catch(() => {});
});
window.addEventListener("hashchange", showPage);
store.addEventListener("change", () => {
  if (state.me === null) return;
  drawNavigation(byId("pages").dataset.shown ?? "predict");
  drawAdmin();
});

watchConnection();
startSourceList(reload);
startPredict();
if (token()) trySignIn();
else signOut();
