/** The grants of a source: who may use, manage or forget it. */

import { call } from "../lib/api.js";
import { el, name } from "../lib/dom.js";
import { RIGHTS, time } from "../lib/format.js";
import { isAdmin, state } from "../lib/store.js";
import { actionButton, dropdown, field, form, input } from "../components/forms.js";
import { remoteTable } from "../components/remote_data.js";

export function showGrants(source, reload) {
  const grants = remoteTable("grants", {
    query: { source: source.id },
    headings: ["User", "May", "Since", ""],
    row,
    message: "Only its owner may use it. Grant it to somebody.",
    caption: "Grants",
  });
  const reloadAll = () => Promise.all([grants.reload(), reload({ withDetails: true })]);

  function row(grant) {
    const user = grant.user_id === state.me.id ? "you" : (state.users.get(grant.user_id)?.name ?? grant.user_id);
    const revoke = actionButton("Revoke", `Revoke ${user}'s right to ${grant.right}`, async () => {
      await call("DELETE", "grants", { query: { user: grant.user_id, source: source.id, right: grant.right } });
      await reloadAll();
    });
    return [name(user), RIGHTS[grant.right], time(grant.granted_at), revoke];
  }

  async function grant(user, right) {
    await call("POST", "grants", { json: { user, source: source.id, right } });
    await reloadAll();
  }

  const mayGrantAll = isAdmin() || source.owner_id === state.me.id;
  return el(
    "section",
    {},
    el("h3", {}, "Grants"),
    grants.element,
    !source.rights.includes("use") && actionButton("Grant it to yourself", null, () => grant(state.me.id, "use")),
    grantForm(mayGrantAll ? Object.keys(RIGHTS) : ["use"], grant),
  );
}

function grantForm(rights, grant) {
  const users = [...state.users.values()];
  const suggestions = users.map((user) => el("option", { value: user.name }));
  const user = input({ required: true, list: "user-names" });
  const right = dropdown(
    rights.map((one) => [one, RIGHTS[one]]),
    "use",
  );
  const hint = isAdmin() ? "A name or an id." : "Their id. They find it in their account on this page.";
  const fields = [
    el("datalist", { id: "user-names" }, suggestions),
    el("div", { class: "row" }, field("User or group", user, hint), field("May", right)),
  ];
  const submit = async () => {
    const given = user.value.trim();
    await grant(users.find((one) => one.name === given)?.id ?? given, right.value);
    user.value = "";
  };
  return form(fields, "Grant", submit, { isReady: () => user.value.trim() !== "" });
}
