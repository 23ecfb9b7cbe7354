/** Administration of releases: the prompts of a task at one moment, pinned under a name. */

import { call } from "../lib/api.js";
import { confirm } from "../components/confirm.js";
import { openDialog } from "../components/dialog.js";
import { button, el, fill, name, table } from "../lib/dom.js";
import { field, form, input } from "../components/forms.js";
import { showProblem } from "../components/toasts.js";
import { sourceName, state, task } from "../lib/store.js";
import { many, moment, short } from "../lib/format.js";

export function showReleases(look) {
  const own = task();
  const rows = state.releases.map((release) => [
    name(release.name),
    moment(release.created_at),
    button("Show", () => openRelease(release), { "aria-label": `Show the release ${release.name}` }),
    button("Remove…", () => confirmRemoval(release, look), {
      class: "danger plain",
      "aria-label": `Remove the release ${release.name}`,
    }),
  ]);
  const empty = "No release yet. One keeps answers the same while sources come.";
  return el(
    "section",
    { class: "card", "aria-labelledby": "releases-title" },
    el(
      "div",
      { class: "bar" },
      el("h2", { id: "releases-title" }, "Releases", own && [" of ", name(own.name)]),
      own && button("Pin a release", () => open(own, look)),
    ),
    table(["Name", "Since", "", ""], rows, empty, "Releases"),
  );
}

function open(own, look) {
  const { body, close } = openDialog("Pin a release");
  const title = input({ required: true, maxlength: "200" });
  const hint = el(
    "p",
    { class: "quiet" },
    "All prompts that ",
    name(own.name),
    " has now, under a name that a question may give. What is forgotten leaves it too.",
  );
  fill(
    body,
    hint,
    form([field("Name", title)], "Pin it", async () => {
      await call("POST", "releases", { json: { task: own.id, name: title.value.trim() } });
      await look();
      close();
    }),
  );
}

function confirmRemoval(release, look) {
  const meaning = [name(release.name), " will be unpinned, and nothing brings the same set back. The prompts stay."];
  confirm("Remove this release?", meaning, "Remove the release", async () => {
    await call("DELETE", `releases/${release.id}`);
    await look();
  });
}

async function openRelease(release) {
  const { body, signal } = openDialog(`Release ${release.name}`);
  try {
    const contents = await call("GET", `releases/${release.id}`, { signal });
    const counts = new Map();
    for (const member of contents.members) counts.set(member.source_id, (counts.get(member.source_id) ?? 0) + 1);
    const rows = [...counts].map(([id, count]) => [name(sourceName(id) ?? short(id)), many(count, "prompt")]);
    const losses = contents.losses.map((loss) => [
      short(loss.source_id),
      moment(loss.lost_at),
      el("code", {}, short(loss.erasure_id)),
    ]);
    fill(
      body,
      el(
        "p",
        { class: "quiet" },
        `${many(contents.members.length, "prompt")} of ${many(counts.size, "source")}, `,
        `pinned ${moment(release.created_at)}.`,
      ),
      table(["Source", "Pins"], rows, "Nothing is left in it.", "What it pins"),
      losses.length > 0 && [
        el("h3", {}, "Lost to erasures"),
        table(["Source", "When", "Erasure"], losses, "", "What it lost"),
      ],
    );
  } catch (error) {
    showProblem(body, error);
  }
}
