/**
 * Requests to the service with the key of this tab, and the messages about them.
 */
import { byId, setText } from "./dom.js";

const KEY_NAME = "perigee.key";

/** Null before a key was entered. */
export function knownKey() {
  return sessionStorage.getItem(KEY_NAME);
}

export function keepKey(key) {
  sessionStorage.setItem(KEY_NAME, key);
}

export function forgetKey() {
  sessionStorage.removeItem(KEY_NAME);
}

/** The key as satellites take it, with no scheme word. */
export const bare = (key) => key;

/** The response; undefined after a failure, which `complainTo` has shown. `more` is as `fetch` takes it. */
export async function ask(method, path, { headerOf = bearer, complainTo = complain, ...more } = {}) {
  complainTo("");
  let response;
  try {
    const headers = { authorization: headerOf(knownKey() ?? ""), ...more.headers };
    response = await fetch(path, { method, cache: "no-store", ...more, headers });
  } catch (error) {
    if (error.name === "AbortError") return undefined;
    complainTo("The service could not be reached. Try it again.");
    return undefined;
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => undefined);
  complainTo(body?.error?.message ?? `The service answered with status ${response.status}.`);
  return undefined;
}

/** The same with a body of JSON. */
export function askJson(method, path, body, more = {}) {
  const headers = { "content-type": "application/json", ...more.headers };
  return ask(method, path, { ...more, headers, body: JSON.stringify(body) });
}

/** For screen readers: what has happened. */
export function tell(text) {
  setText(byId("said"), text);
}

export function complain(text) {
  setText(byId("notice"), text);
  byId("notice").hidden = text === "";
}

/** Saves the answers of a task as a file; `view` is as of `/v0/files/output`: `all` or `errors`. */
export async function download({ task_id: id }, name, view = "all") {
  const what = view === "errors" ? "failed lines" : "answers";
  tell(`The ${what} of task ${name} are being loaded`);
  const response = await ask("GET", `v0/files/output/${encodeURIComponent(id)}?view=${view}`);
  if (response === undefined) return;
  const isPart = response.headers.get("x-incomplete") === "true";
  const blob = await response.blob().catch(() => undefined);
  if (blob === undefined) {
    complain("The download broke off. Try it again.");
    return;
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `perigee-${name}${view === "errors" ? "-errors" : ""}${isPart ? "-part" : ""}.jsonl`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  tell(`The ${what} of task ${name} are downloaded${isPart ? ", as far as they have arrived" : ""}`);
}

function bearer(key) {
  return `Bearer ${key}`;
}
