/** Before something is forgotten: what will happen, said plainly, and a step that nobody takes by accident. */

import { call, callAll } from "../lib/api.js";
import { openDialog } from "../components/dialog.js";
import { el, fill, name } from "../lib/dom.js";
import { openErasure } from "./erasures.js";
import { field, form, input } from "../components/forms.js";
import { many, short } from "../lib/format.js";

export async function confirmForgettingSource(source, hasForgotten) {
  const { body, close, signal } = openDialog("Forget this source for good?");
  const typed = input({ required: true });
  const pictures = many(source.samples, "picture");
  const shards = many(source.shards.length, "shard");
  const grants = el("li", {}, "Every grant to it ends.");
  const what = el(
    "ul",
    {},
    el("li", {}, "From the moment the service answers, no answer to anybody uses it."),
    el("li", {}, `Its ${pictures}, ${shards} and their prompts are erased: rows, files, copies in memory.`),
    grants,
    el("li", {}, "It leaves every release too, and the release says so."),
    el("li", {}, "Other sources, and answers that rest on them alone, stay as they are."),
    el("li", {}, "You get a signed receipt when all of it is verified."),
  );
  const sure = form(
    [field("Type the source's name to confirm", typed, el("span", {}, "Its name is ", name(source.name)))],
    "Forget it for good",
    async () => {
      const erasure = await call("DELETE", `sources/${source.id}`);
      close();
      await hasForgotten();
      openErasure(erasure.id, source.name);
    },
    { kind: "danger", isReady: () => typed.value === source.name },
  );
  fill(body, el("p", {}, name(source.name), " will be forgotten. It cannot be undone."), what, sure);
  typed.focus();
  if (!source.rights.includes("manage")) return; // whoever may not see the grants is not told their number
  try {
    const { rows } = await callAll("grants", { query: { source: source.id }, signal });
    fill(grants, `${many(rows.length, "grant")} to it will end.`);
  } catch {
    // The sentence without the number is true as well.
  }
}

export function confirmForgettingSample(source, sample, hasForgotten) {
  const { body, close } = openDialog("Forget this picture for good?");
  const shard = source.shards.find((one) => one.id === sample.shard_id);
  const size = shard
    ? `shard ${shard.number + 1} with its ${many(shard.samples, "picture")}`
    : "the shard that it is in";
  const sure = form(
    [],
    "Forget the picture for good",
    async () => {
      const erasure = await call("DELETE", `sources/${source.id}/samples/${sample.digest}`);
      close();
      openErasure(erasure.id, sample.name);
      await hasForgotten();
    },
    { kind: "danger" },
  );
  fill(
    body,
    el(
      "p",
      {},
      name(sample.name),
      sample.label && [" (", name(sample.label), ")"],
      " of ",
      name(source.name),
      ", with the digest ",
      el("code", { title: sample.digest }, short(sample.digest)),
      ", will be forgotten. It cannot be undone.",
    ),
    el(
      "ul",
      {},
      el("li", {}, `At once, ${size} stops answering.`),
      el("li", {}, "The shard is trained again as if the picture had never been there, and then comes back."),
      el("li", {}, "The picture's file and rows are erased, and it is not taken in again unasked."),
      el("li", {}, "You get a signed receipt when all of it is verified."),
    ),
    sure,
  );
}
