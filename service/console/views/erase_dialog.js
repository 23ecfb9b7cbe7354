/** The dialogs that confirm an erasure: what will happen, and a step that nobody takes by accident. */

import { call, callAll } from "../lib/api.js";
import { el, fill, name } from "../lib/dom.js";
import { plural, short } from "../lib/format.js";
import { openDialog } from "../components/dialog.js";
import { field, form, input } from "../components/forms.js";
import { openErasure } from "./erasures.js";

export async function confirmEraseSource(source, onErased) {
  const { body, close, signal } = openDialog("Forget this source permanently?");
  const typed = input({ required: true });
  const pictures = plural(source.samples, "picture");
  const shards = plural(source.shards.length, "shard");
  const grants = el("li", {}, "All grants to it are revoked.");
  const consequences = el(
    "ul",
    {},
    el("li", {}, "From the moment the service confirms, no prediction uses it."),
    el("li", {}, `Its ${pictures}, ${shards} and prompts are deleted: rows, files and copies in memory.`),
    grants,
    el("li", {}, "It is removed from every release, and the release records this."),
    el("li", {}, "Other sources and their predictions do not change."),
    el("li", {}, "You get a signed receipt when everything is verified."),
  );
  const erase = async () => {
    const erasure = await call("DELETE", `sources/${source.id}`);
    close();
    await onErased();
    openErasure(erasure.id, source.name);
  };
  const hint = el("span", {}, "Its name is ", name(source.name));
  const confirmForm = form([field("Type the source's name to confirm", typed, hint)], "Forget permanently", erase, {
    kind: "danger",
    isReady: () => typed.value === source.name,
  });
  fill(body, el("p", {}, name(source.name), " will be forgotten. This cannot be undone."), consequences, confirmForm);
  typed.focus();
  if (!source.rights.includes("manage")) return; // only managers may read the grants
  try {
    const { rows } = await callAll("grants", { query: { source: source.id }, signal });
    fill(grants, `${plural(rows.length, "grant")} to it will be revoked.`);
  } catch {
    // The sentence without the number is correct, too.
  }
}

export function confirmEraseSample(source, sample, onErased) {
  const { body, close } = openDialog("Forget this picture permanently?");
  const shard = source.shards.find((one) => one.id === sample.shard_id);
  const affected = shard ? `Shard ${shard.number + 1} (${plural(shard.samples, "picture")})` : "Its shard";
  const erase = async () => {
    const erasure = await call("DELETE", `sources/${source.id}/samples/${sample.digest}`);
    close();
    openErasure(erasure.id, sample.name);
    await onErased();
  };
  fill(
    body,
    el(
      "p",
      {},
      name(sample.name),
      sample.label && [" (", name(sample.label), ")"],
      " of ",
      name(source.name),
      ", digest ",
      el("code", { title: sample.digest }, short(sample.digest)),
      ", will be forgotten. This cannot be undone.",
    ),
    el(
      "ul",
      {},
      el("li", {}, `${affected} stops answering at once.`),
      el("li", {}, "The shard is trained again without the picture, and is then used again."),
      el("li", {}, "The picture's file and rows are deleted. Uploading it again is refused by default."),
      el("li", {}, "You get a signed receipt when everything is verified."),
    ),
    form([], "Forget permanently", erase, { kind: "danger" }),
  );
}
