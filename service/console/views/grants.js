/** Who may use, manage or forget a source: listed, given and taken back. */

import { call, callAll } from "../lib/api.js";
import { el, fill, name, table } from "../lib/dom.js";
import { act, choose, field, form, input } from "../components/forms.js";
import { showProblem } from "../components/toasts.js";
import { isAdmin, state } from "../lib/store.js";
import { moment, RIGHTS } from "../lib/format.js";

export function showGrants(source, look) {
  const place = el("div");

  async function draw() {
    try {
      const { rows } = await callAll("grants", { query: { source: source.id } });
      fill(
        place,
        table(
          ["Who", "May", "Since", ""],
          rows.map(row),
          "Nobody but its owner may use it. Grant it to somebody.",
          "Grants",
        ),
      );
    } catch (error) {
      showProblem(place, error, draw);
    }
  }

  function row(grant) {
    const who = called(grant.user_id);
    const revoke = act("Revoke", `Revoke ${who}'s right to ${grant.right}`, async () => {
      await call("DELETE", "grants", { query: { user: grant.user_id, source: source.id, right: grant.right } });
      await Promise.all([draw(), look({ isThorough: true })]);
    });
    return [name(who), RIGHTS[grant.right], moment(grant.granted_at), revoke];
  }

  async function give(user, right) {
    await call("POST", "grants", { json: { user, source: source.id, right } });
    await Promise.all([draw(), look({ isThorough: true })]);
  }

  draw();
  const isOurs = isAdmin() || source.owner_id === state.me.id;
  return el(
    "section",
    {},
    el("h3", {}, "Grants"),
    place,
    !source.rights.includes("use") && act("Grant yourself the right to use it", null, () => give(state.me.id, "use")),
    giving(isOurs ? Object.keys(RIGHTS) : ["use"], give),
  );
}

function giving(rights, give) {
  const others = [...state.users.values()];
  const list = el(
    "datalist",
    { id: "people" },
    others.map((user) => el("option", { value: user.name })),
  );
  const who = input({ required: true, list: "people" });
  const right = choose(
    rights.map((one) => [one, RIGHTS[one]]),
    "use",
  );
  const hint = isAdmin() ? "A name, or an id." : "Their id: the console shows it to them under their name.";
  const fields = [list, el("div", { class: "row" }, field("User or group", who, hint), field("May", right))];
  return form(
    fields,
    "Grant",
    async () => {
      const wanted = who.value.trim();
      await give(others.find((user) => user.name === wanted)?.id ?? wanted, right.value);
      who.value = "";
    },
    { isReady: () => who.value.trim() !== "" },
  );
}

function called(id) {
  if (id === state.me.id) return "you";
  return state.users.get(id)?.name ?? id;
}
