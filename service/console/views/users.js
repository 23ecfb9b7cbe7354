/** Administration of users and groups. */

import { call } from "../lib/api.js";
import { confirm } from "../components/confirm.js";
import { openDialog } from "../components/dialog.js";
import { button, el, fill, name, table } from "../lib/dom.js";
import { choose, field, form, input } from "../components/forms.js";
import { openGroup } from "./groups.js";
import { loadUsers, state } from "../lib/store.js";
import { openTokens } from "./tokens.js";
import { moment } from "../lib/format.js";

const KINDS = [
  ["predictor", "predictor: asks, by what is granted"],
  ["owner", "owner: uploads sources too"],
  ["admin", "admin: everything"],
  ["group", "group: holds grants for its members"],
];

export function showPeople() {
  const rows = [...state.users.values()].map((user) => [
    name(user.name),
    user.is_group ? "group" : user.role,
    moment(user.created_at),
    user.is_group
      ? button("Members", () => openGroup(user), { "aria-label": `Members of ${user.name}` })
      : button("Tokens", () => openTokens(user), { "aria-label": `Tokens of ${user.name}` }),
    button("Remove…", () => confirmRemoval(user), { class: "danger plain", "aria-label": `Remove ${user.name}` }),
  ]);
  return el(
    "section",
    { class: "card", "aria-labelledby": "people-title" },
    el("div", { class: "bar" }, el("h2", { id: "people-title" }, "Users"), button("Make a user", open)),
    table(["Name", "Role", "Since", "", ""], rows, "Nobody yet.", "Users"),
  );
}

function open() {
  const { body, close } = openDialog("Make a user or a group");
  const title = input({ required: true, maxlength: "200" });
  const kind = choose(KINDS, "predictor");
  fill(
    body,
    form([field("Name", title), field("Role", kind)], "Make", async () => {
      const isGroup = kind.value === "group";
      const json = { name: title.value.trim(), is_group: isGroup, role: isGroup ? "predictor" : kind.value };
      const user = await call("POST", "users", { json });
      await loadUsers();
      close();
      if (!isGroup) openTokens(user); // nobody can sign in without one
    }),
  );
}

function confirmRemoval(user) {
  const what = user.is_group
    ? " will be removed. Its members lose what they had through it, at once."
    : " will be removed with all tokens, grants and memberships, at once. Their sources stay, without an owner.";
  const title = user.is_group ? "Remove this group?" : "Remove this user?";
  confirm(title, [name(user.name), what], `Remove ${user.name}`, async () => {
    await call("DELETE", `users/${user.id}`);
    await loadUsers();
  });
}
