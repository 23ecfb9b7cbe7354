/** Administration of users and groups. */

import { call } from "../lib/api.js";
import { button, card, fill, name, table } from "../lib/dom.js";
import { time } from "../lib/format.js";
import { loadUsers, state } from "../lib/store.js";
import { confirm, openDialog } from "../components/dialog.js";
import { dropdown, field, form, input } from "../components/forms.js";
import { openGroup } from "./groups.js";
import { openTokens } from "./tokens.js";

const ROLES = [
  ["predictor", "predictor: predicts with granted sources"],
  ["owner", "owner: also uploads sources"],
  ["admin", "admin: may do everything"],
  ["group", "group: its members share its grants"],
];

export function showUsers() {
  const rows = [...state.users.values()].map((user) => [
    name(user.name),
    user.is_group ? "group" : user.role,
    time(user.created_at),
    user.is_group
      ? button("Members", () => openGroup(user), { "aria-label": `Members of ${user.name}` })
      : button("Tokens", () => openTokens(user), { "aria-label": `Tokens of ${user.name}` }),
    button("Delete…", () => confirmDeletion(user), { class: "danger plain", "aria-label": `Delete ${user.name}` }),
  ]);
  const users = table(["Name", "Role", "Created", "", ""], rows, "There is no user yet.", "Users");
  return card("users-title", "Users", button("Create a user", openCreate), users);
}

function openCreate() {
  const { body, close } = openDialog("Create a user or a group");
  const title = input({ required: true, maxlength: "200" });
  const role = dropdown(ROLES, "predictor");
  const create = async () => {
    const isGroup = role.value === "group";
    const json = { name: title.value.trim(), is_group: isGroup, role: isGroup ? "predictor" : role.value };
    const user = await call("POST", "users", { json });
    await loadUsers();
    close();
    if (!isGroup) openTokens(user); // a user needs a token to sign in
  };
  fill(body, form([field("Name", title), field("Role", role)], "Create", create));
}

function confirmDeletion(user) {
  const consequence = user.is_group
    ? " will be deleted. Its members lose its grants at once."
    : " will be deleted with all tokens, grants and memberships. Their sources stay, without an owner.";
  const title = user.is_group ? "Delete this group?" : "Delete this user?";
  confirm(title, [name(user.name), consequence], `Delete ${user.name}`, async () => {
    await call("DELETE", `users/${user.id}`);
    await loadUsers();
  });
}
