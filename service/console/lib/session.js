/** Who is signed in: the token lives in this tab's session storage, and nowhere else. */

const KEY = "alacarte.token";

/** Tells `ended` when the token stops being good, with the problem as its detail. */
export const session = new EventTarget();

export const token = () => sessionStorage.getItem(KEY);

export const keepToken = (text) => sessionStorage.setItem(KEY, text);

export const dropToken = () => sessionStorage.removeItem(KEY);

export function endSession(problem) {
  dropToken();
  session.dispatchEvent(new CustomEvent("ended", { detail: problem }));
}
