/** The tokens of a user: issued, shown once, and revoked. */

import { call } from "../lib/api.js";
import { el, fill, name } from "../lib/dom.js";
import { time } from "../lib/format.js";
import { openDialog } from "../components/dialog.js";
import { actionButton, copyButton, field, form, input } from "../components/forms.js";
import { remoteTable } from "../components/remote_data.js";

const DAY_S = 86400;

export function openTokens(user) {
  const { body, signal } = openDialog(`Tokens of ${user.name}`);
  const issued = el("div", { "aria-live": "polite" });
  const tokens = remoteTable("tokens", {
    query: { user: user.id },
    signal,
    headings: ["Prefix", "Purpose", "Created", "Expires", ""],
    row,
    message: "There is no token yet. Issue one and give it to the user.",
    caption: "Tokens",
  });

  function row(token) {
    const revoke = actionButton("Revoke", `Revoke the token ${token.prefix}`, async () => {
      await call("DELETE", `tokens/${token.id}`);
      await tokens.reload();
    });
    const expiry = token.expires_at ? time(token.expires_at) : "never";
    return [el("code", {}, token.prefix), name(token.note || "–"), time(token.created_at), expiry, revoke];
  }

  const note = input({ maxlength: "200" });
  const days = input({ type: "number", min: "1", max: "3650", placeholder: "never expires" });
  const fields = [el("div", { class: "row" }, field("Purpose", note), field("Days", days))];
  const issue = async () => {
    const lifetime_s = days.value ? Number(days.value) * DAY_S : null;
    const token = await call("POST", "tokens", { json: { user: user.id, note: note.value.trim(), lifetime_s } });
    const title = el("strong", {}, "The new token. ");
    fill(
      issued,
      el(
        "div",
        { class: "new-token" },
        el("p", {}, title, "Copy it now. It cannot be shown again."),
        el("output", { class: "secret" }, token.text),
        copyButton(token.text),
      ),
    );
    await tokens.reload();
  };
  fill(body, issued, form(fields, "Issue a token", issue), tokens.element);
}
