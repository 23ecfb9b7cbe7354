/** The members of a group. */

import { call } from "../lib/api.js";
import { el, fill, name } from "../lib/dom.js";
import { state } from "../lib/store.js";
import { openDialog } from "../components/dialog.js";
import { actionButton, dropdown, field, form } from "../components/forms.js";
import { remoteTable } from "../components/remote_data.js";

export function openGroup(group) {
  const { body, signal } = openDialog(`Members of ${group.name}`);
  const adding = el("div");
  const members = remoteTable(`users/${group.id}/members`, {
    signal,
    headings: ["Name", "Role", ""],
    row,
    message: "The group has no members. Members share the grants of the group.",
    caption: "Members",
    onLoad: drawForm,
  });

  function row(user) {
    const remove = actionButton("Remove", `Remove ${user.name} from the group`, async () => {
      await call("DELETE", `users/${group.id}/members/${user.id}`);
      await members.reload();
    });
    return [name(user.name), user.role, remove];
  }

  function drawForm(rows) {
    const ids = new Set(rows.map((user) => user.id));
    const others = [...state.users.values()].filter((user) => !user.is_group && !ids.has(user.id));
    const user = dropdown(
      others.map((other) => [other.id, other.name]),
      others[0]?.id,
    );
    const add = async () => {
      await call("PUT", `users/${group.id}/members/${user.value}`);
      await members.reload();
    };
    fill(adding, others.length > 0 && form([field("User", user)], "Add", add));
  }

  fill(body, members.element, adding);
}
