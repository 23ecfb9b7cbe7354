/** Asks once more before something goes, and says what that means. */

import { openDialog } from "./dialog.js";
import { el, fill } from "../lib/dom.js";
import { act } from "./forms.js";

/** Opens a question whose one button, named by its text, does the work and closes it. */
export function confirm(title, meaning, text, work) {
  const { body, close } = openDialog(title);
  const sure = act(
    text,
    null,
    async () => {
      await work();
      close();
    },
    { class: "danger" },
  );
  fill(body, el("p", {}, meaning), el("div", { class: "actions" }, sure));
}
