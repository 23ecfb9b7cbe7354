/** The tokens of a user: issued, shown once, and ended. */

import { call, callAll } from "../lib/api.js";
import { openDialog } from "../components/dialog.js";
import { el, fill, name, table } from "../lib/dom.js";
import { act, copy, field, form, input } from "../components/forms.js";
import { showProblem } from "../components/toasts.js";
import { moment } from "../lib/format.js";

const DAY_S = 86400;

export function openTokens(user) {
  const { body, signal } = openDialog(`Tokens of ${user.name}`);
  const place = el("div");
  const issued = el("div", { "aria-live": "polite" });

  async function draw() {
    try {
      const { rows } = await callAll("tokens", { query: { user: user.id }, signal });
      fill(
        place,
        table(
          ["Begins with", "For", "Since", "Until", ""],
          rows.map(row),
          "No token yet. Issue one, and hand it over.",
          "Tokens",
        ),
      );
    } catch (error) {
      showProblem(place, error, draw);
    }
  }

  function row(token) {
    const end = act("Revoke", `Revoke the token ${token.prefix}`, async () => {
      await call("DELETE", `tokens/${token.id}`);
      await draw();
    });
    const until = token.expires_at ? moment(token.expires_at) : "it is revoked";
    return [el("code", {}, token.prefix), name(token.note || "–"), moment(token.created_at), until, end];
  }

  const note = input({ maxlength: "200" });
  const days = input({ type: "number", min: "1", max: "3650", placeholder: "until it is revoked" });
  const issuing = form(
    [el("div", { class: "row" }, field("What it is for", note), field("Days", days))],
    "Issue a token",
    async () => {
      const json = {
        user: user.id,
        note: note.value.trim(),
        lifetime_s: days.value ? Number(days.value) * DAY_S : null,
      };
      const made = await call("POST", "tokens", { json });
      const text = el("output", { class: "secret" }, made.text);
      fill(
        issued,
        el(
          "div",
          { class: "once" },
          el("p", {}, el("strong", {}, "The new token. "), "It is shown this once: nobody can show it again."),
          text,
          copy(made.text),
        ),
      );
      await draw();
    },
  );
  fill(body, issued, issuing, place);
  draw();
}
