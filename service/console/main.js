/** The page put together: signing in and out, its pages, and one watch over what changes. */

import { connection } from "./lib/api.js";
import { clearPictures, startAsking } from "./views/predict.js";
import { button, byId, el, fill, name } from "./lib/dom.js";
import { startErasures } from "./views/erasures.js";
import { copy } from "./components/forms.js";
import { startMenu } from "./views/source_list.js";
import { clearProblem, showProblem, watchConnection } from "./components/toasts.js";
import { showPeople } from "./views/users.js";
import { poll } from "./lib/polling.js";
import { showReleases } from "./views/releases.js";
import { dropToken, keepToken, session, token } from "./lib/session.js";
import { forgetAll, isAdmin, may, mayUpload, meet, refresh, state, store } from "./lib/store.js";
import { showTasks } from "./views/tasks.js";

const PAGES = { menu: "Menu", forgetting: "Forgetting", administration: "Administration" };
const isOffered = {
  menu: () => true,
  forgetting: () => mayUpload() || state.sources.some((source) => may(source, "forget")),
  administration: isAdmin,
};

let visit = new AbortController(); // ends when one signs out
let stay = new AbortController(); // ends when one leaves the page of erasures
let hurry = async () => {};

/** Reads everything anew, and shows beside the menu if that failed. */
async function look({ isThorough = false } = {}) {
  try {
    const isDifferent = await refresh({ isThorough });
    clearProblem(byId("menu-problem"));
    return isDifferent;
  } catch (error) {
    if (!state.hasLoaded || error.status) showProblem(byId("menu-problem"), error);
    throw error;
  }
}

async function enter() {
  await meet();
  visit = new AbortController();
  byId("sign-in").hidden = true;
  byId("top").hidden = false;
  drawWho();
  turn();
  hurry = poll(look, { signal: visit.signal });
  await hurry();
}

function leave(problem = null) {
  visit.abort();
  stay.abort();
  dropToken();
  document.querySelectorAll("dialog").forEach((dialog) => dialog.close());
  clearPictures();
  forgetAll();
  store.dispatchEvent(new Event("change"));
  for (const page of Object.keys(PAGES)) byId(`page-${page}`).hidden = true;
  byId("page-forgetting").replaceChildren();
  byId("page-administration").replaceChildren();
  delete byId("pages").dataset.shown;
  byId("top").hidden = true;
  byId("sign-in").hidden = false;
  if (problem === null) clearProblem(byId("sign-in-problem"));
  else showProblem(byId("sign-in-problem"), problem);
  byId("token").focus();
}

function drawWho() {
  const { me } = state;
  const facts = el(
    "div",
    { class: "me" },
    el("p", { class: "small" }, "Your id, for whoever grants you a source:"),
    el("code", {}, me.id),
    copy(me.id),
  );
  const account = el(
    "details",
    {},
    el("summary", {}, name(me.name), " ", el("span", { class: "pill idle" }, me.role)),
    facts,
  );
  fill(
    byId("who"),
    account,
    button("Sign out", () => leave()),
  );
}

/** Shows the page that the address names, if it is there for this reader. */
function turn() {
  if (state.me === null) return;
  if (location.hash && !location.hash.startsWith("#/") && byId("pages").dataset.shown) return; // a place on this page
  const wanted = location.hash.slice(2);
  const shown = isOffered[wanted]?.() ? wanted : "menu";
  for (const page of Object.keys(PAGES)) byId(`page-${page}`).hidden = page !== shown;
  document.title = shown === "menu" ? "alacarte" : `${PAGES[shown]} · alacarte`;
  drawPages(shown);
  stay.abort();
  stay = new AbortController();
  if (shown === "forgetting") startErasures(stay.signal);
}

function drawPages(shown) {
  const offered = Object.keys(PAGES).filter((page) => isOffered[page]());
  const links = offered.map((page) =>
    el("a", { href: `#/${page}`, "aria-current": page === shown ? "page" : null }, PAGES[page]),
  );
  if (byId("pages").children.length !== links.length || byId("pages").dataset.shown !== shown)
    fill(byId("pages"), links);
  byId("pages").dataset.shown = shown;
  byId("pages").hidden = links.length < 2;
}

let administered = "";

function drawAdministration() {
  if (!isAdmin()) return;
  const told = JSON.stringify([state.tasks, [...state.users], state.releases, state.taskId]);
  if (told === administered && byId("page-administration").children.length) return;
  administered = told;
  fill(byId("page-administration"), showTasks(hurryNow), showPeople(), showReleases(hurryNow));
}

const hurryNow = (how) => (how?.isThorough ? look(how) : hurry());

byId("sign-in-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const place = byId("sign-in-problem");
  clearProblem(place);
  keepToken(byId("token").value.trim());
  try {
    await enter();
    byId("token").value = "";
    byId("main").focus();
  } catch (error) {
    if (error.status !== 401) showProblem(place, error); // that one has been shown
  }
});
session.addEventListener("ended", (event) => leave(event.detail));
connection.addEventListener("found", () => (state.me === null ? token() && start() : look({ isThorough: true })));
document.addEventListener(
  "visibilitychange",
  () => document.hidden || state.me === null || look({ isThorough: true }).catch(() => {}),
);
window.addEventListener("hashchange", turn);
store.addEventListener("change", () => {
  if (state.me === null) return;
  drawPages(byId("pages").dataset.shown ?? "menu");
  drawAdministration();
});

async function start() {
  if (!token()) {
    leave();
    return;
  }
  try {
    await enter();
  } catch (error) {
    if (error.status !== 401) {
      byId("sign-in").hidden = false;
      showProblem(byId("sign-in-problem"), error);
    }
  }
}

watchConnection();
startMenu(hurryNow);
startAsking();
start();
