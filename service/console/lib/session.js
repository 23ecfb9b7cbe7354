/** The token of the signed-in user, in this tab's session storage and nowhere else. */

const KEY = "alacarte.token";

/** Dispatches `ended` when the service rejects the token, with the problem as its detail. */
export const session = new EventTarget();

export const token = () => sessionStorage.getItem(KEY);

export const storeToken = (text) => sessionStorage.setItem(KEY, text);

export const removeToken = () => sessionStorage.removeItem(KEY);

export function endSession(problem) {
  removeToken();
  session.dispatchEvent(new CustomEvent("ended", { detail: problem }));
}
