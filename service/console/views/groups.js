/** Who is in a group. */

import { call, callAll } from "../lib/api.js";
import { openDialog } from "../components/dialog.js";
import { el, fill, name, table } from "../lib/dom.js";
import { act, choose, field, form } from "../components/forms.js";
import { showProblem } from "../components/toasts.js";
import { state } from "../lib/store.js";

export function openGroup(group) {
  const { body, signal } = openDialog(`Members of ${group.name}`);
  const place = el("div");
  const adding = el("div");

  async function draw() {
    try {
      const { rows } = await callAll(`users/${group.id}/members`, { signal });
      fill(
        place,
        table(
          ["Name", "Role", ""],
          rows.map(row),
          "Nobody is in it. Members have what the group is granted.",
          "Members",
        ),
      );
      const inside = new Set(rows.map((user) => user.id));
      fill(adding, showAdding([...state.users.values()].filter((user) => !user.is_group && !inside.has(user.id))));
    } catch (error) {
      showProblem(place, error, draw);
    }
  }

  function row(user) {
    const off = act("Remove", `Remove ${user.name} from the group`, async () => {
      await call("DELETE", `users/${group.id}/members/${user.id}`);
      await draw();
    });
    return [name(user.name), user.role, off];
  }

  function showAdding(others) {
    if (!others.length) return null;
    const who = choose(
      others.map((user) => [user.id, user.name]),
      others[0].id,
    );
    return form([field("User", who)], "Add", async () => {
      await call("PUT", `users/${group.id}/members/${who.value}`);
      await draw();
    });
  }

  fill(body, place, adding);
  draw();
}
