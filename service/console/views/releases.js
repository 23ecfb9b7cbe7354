/** Administration of releases: the prompts of a task, pinned under a name. */

import { call } from "../lib/api.js";
import { button, card, el, fill, name, table } from "../lib/dom.js";
import { plural, short, time } from "../lib/format.js";
import { currentTask, sourceName, state } from "../lib/store.js";
import { confirm, openDialog } from "../components/dialog.js";
import { field, form, input } from "../components/forms.js";
import { showProblem } from "../components/problem.js";

export function showReleases(reload) {
  const task = currentTask();
  const rows = state.releases.map((release) => [
    name(release.name),
    time(release.created_at),
    button("Show", () => openRelease(release), { "aria-label": `Show the release ${release.name}` }),
    button("Delete…", () => confirmDeletion(release, reload), {
      class: "danger plain",
      "aria-label": `Delete the release ${release.name}`,
    }),
  ]);
  const message = "There is no release yet. A release keeps predictions stable while sources are added.";
  const create = task && button("Create a release", () => openCreate(task, reload));
  const releases = table(["Name", "Created", "", ""], rows, message, "Releases");
  return card("releases-title", ["Releases", task && [" of ", name(task.name)]], create, releases);
}

function openCreate(task, reload) {
  const { body, close } = openDialog("Create a release");
  const title = input({ required: true, maxlength: "200" });
  const hint = ["It pins all current prompts of ", name(task.name), ". What is forgotten later leaves it, too."];
  const create = async () => {
    await call("POST", "releases", { json: { task: task.id, name: title.value.trim() } });
    await reload();
    close();
  };
  fill(body, el("p", { class: "muted" }, hint), form([field("Name", title)], "Create", create));
}

function confirmDeletion(release, reload) {
  const consequence = [name(release.name), " will be deleted. The prompts stay, but the same set cannot be restored."];
  confirm("Delete this release?", consequence, "Delete the release", async () => {
    await call("DELETE", `releases/${release.id}`);
    await reload();
  });
}

async function openRelease(release) {
  const { body, signal } = openDialog(`Release ${release.name}`);
  try {
    const { members, losses } = await call("GET", `releases/${release.id}`, { signal });
    const counts = new Map();
    for (const member of members) counts.set(member.source_id, (counts.get(member.source_id) ?? 0) + 1);
    const rows = [...counts].map(([id, count]) => [name(sourceName(id) ?? short(id)), plural(count, "prompt")]);
    const lost = losses.map((loss) => [
      short(loss.source_id),
      time(loss.lost_at),
      el("code", {}, short(loss.erasure_id)),
    ]);
    const summary = `${plural(members.length, "prompt")} of ${plural(counts.size, "source")}`;
    fill(
      body,
      el("p", { class: "muted" }, `${summary}, created ${time(release.created_at)}.`),
      table(["Source", "Prompts"], rows, "The release is empty.", "Contents"),
      lost.length > 0 && [el("h3", {}, "Erased"), table(["Source", "Time", "Erasure"], lost, "", "Erased prompts")],
    );
  } catch (error) {
    showProblem(body, error);
  }
}
