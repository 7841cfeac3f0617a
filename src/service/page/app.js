/**
 * The operator page: asks for the key once, follows the feed, shows it, and cancels and downloads on a click.
 *
 *   no key -> (typed) -> following -> refused or forgotten -> no key
 *
 * The key is kept in sessionStorage: for this tab, until it is closed.
 */
import { showBatches } from "./batches.js";
import { Chart } from "./chart.js";
import { byId, setAttribute, setText } from "./dom.js";
import { Feed } from "./feed.js";
import { compact, count, duration, moment, percent, rate, shortId, usd } from "./format.js";
import { showErrors, showLanes } from "./lanes.js";
import { Satellites } from "./satellites.js";
import { TaskTable } from "./tasks.js";

const KEY_NAME = "perigee.key";
const REFUSALS = {
  401: "This key is not accepted. It may be mistyped, expired or revoked.",
  403: "This key may not read tasks: it needs the scope infer:read.",
};

const chart = new Chart(byId("chart"));
const table = new TaskTable({ cancel: askToCancel, download });
const satellites = new Satellites({ cancelCluster, cancelExecution });
/** Where earlier pages of tasks began; the last entry is the page that is shown. */
let pages = [null];
let hasMore = false;
let lastTaskId = null;
let feed = null;
let countdown = null;

byId("login-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const key = byId("key").value.trim();
  if (key !== "") follow(key);
});
byId("forget").addEventListener("click", () => leave(""));
byId("older").addEventListener("click", () => turn([...pages, lastTaskId]));
byId("newer").addEventListener("click", () => turn(pages.slice(0, -1)));

const known = sessionStorage.getItem(KEY_NAME);
if (known === null) leave("");
else follow(known);

function follow(key) {
  setText(byId("login-error"), "");
  byId("login-button").disabled = true;
  contact("idle", "Connecting");
  pages = [null];
  feed?.stop();
  feed = new Feed({
    key,
    onEvent: (name, data) => {
      if (byId("board").hidden) open(key);
      if (name === "history") chart.add(data);
      if (name === "snapshot") show(data);
    },
    onState: (state, detail) => stateChanged(state, detail),
  });
}

function open(key) {
  sessionStorage.setItem(KEY_NAME, key);
  byId("key").value = "";
  byId("login").hidden = true;
  byId("board").hidden = false;
  byId("forget").hidden = false;
}

/** Back to the question for a key. */
function leave(problem) {
  feed?.stop();
  feed = null;
  clearInterval(countdown);
  sessionStorage.removeItem(KEY_NAME);
  byId("board").hidden = true;
  byId("forget").hidden = true;
  byId("login").hidden = false;
  byId("login-button").disabled = false;
  setText(byId("login-error"), problem);
  contact("idle", "Not connected");
  byId("key").focus();
}

function stateChanged(state, detail) {
  if (state === "refused") {
    leave(REFUSALS[detail]);
    return;
  }
  clearInterval(countdown);
  byId("board").classList.toggle("stale", state === "lost");
  if (state === "live") contact("live", "Live");
  else lost(detail);
}

function lost(waitMs) {
  const endMs = performance.now() + waitMs;
  byId("login-button").disabled = false;
  contact("lost", "Lost contact, trying again");
  countdown = setInterval(() => {
    const leftMs = endMs - performance.now();
    byId("contact").title = leftMs > 1_000 ? `next try in ${duration(leftMs)}` : "trying";
  }, 1_000);
}

function contact(state, text) {
  setAttribute(byId("contact"), "data-state", state);
  setText(byId("contact-text"), text);
  byId("contact").title = "";
}

function show(snapshot) {
  const { throughput, totals, tasks, errors, time } = snapshot;
  chart.add(throughput.seconds);
  setText(byId("items-rate"), rate(throughput.items_per_second));
  setText(byId("tokens-rate"), rate(throughput.tokens_per_second));
  const { failed } = totals;
  setText(byId("answered"), compact(totals.completed));
  setText(byId("answered-tokens"), compact(totals.input_tokens + totals.output_tokens));
  setText(byId("errors-total"), compact(failed));
  byId("errors-total").className = failed > 0 ? "value bad" : "value";
  setText(byId("errors-share"), percent(failed === 0 ? 0 : failed / (failed + totals.completed)));
  setText(byId("billed"), usd(totals.billed_usd));
  setText(byId("ambiguous"), usd(totals.ambiguous_usd));
  setText(byId("charged"), usd(totals.usd));
  setText(byId("list"), usd(totals.list_usd));
  setText(byId("since"), moment(snapshot.started_at));
  showLanes(snapshot.lanes);
  showBatches(snapshot.batches, snapshot.batches_more);
  showErrors(errors);
  showTasks(tasks, time);
  satellites.show(snapshot);
}

function showTasks(tasks, timeMs) {
  const shown = pages.at(-1) ?? null;
  if (tasks.after === null && shown !== null)
    pages = [null]; // the task that the page began after does not exist any more
  else if (tasks.after !== shown) return; // of the page that was shown before
  hasMore = tasks.has_more;
  lastTaskId = tasks.items.at(-1)?.task_id ?? null;
  table.show(tasks.items, timeMs);
  byId("older").disabled = !hasMore || lastTaskId === null;
  byId("newer").disabled = pages.length === 1;
  setText(byId("page-text"), `Page ${pages.length}`);
}

function turn(to) {
  pages = to;
  byId("older").disabled = true;
  byId("newer").disabled = true;
  feed?.show(pages.at(-1) ?? null);
}

function askToCancel(task) {
  const left = task.counts.submitted;
  const name = shortId(task.task_id);
  confirmed(
    `Task ${name}: ${count(left)} ${left === 1 ? "item has" : "items have"} no answer yet. ` +
      "Requests that were not sent are dropped; answers that have arrived or are on their way stay, and are paid.",
    async () => {
      const path = `v0/infer/task/${encodeURIComponent(task.task_id)}/cancel`;
      if ((await ask("POST", path)) !== undefined) tell(`Task ${name} is cancelled`);
    },
  );
}

function cancelCluster({ cluster_id: id }) {
  const name = shortId(id);
  confirmed(`Cluster ${name}: what its members have done stays done; nothing more is started.`, async () => {
    const path = `v1/clusters/${encodeURIComponent(id)}/cancel`;
    if ((await ask("POST", path, bare)) !== undefined) tell(`Cluster ${name} is cancelled`);
  });
}

function cancelExecution({ execution_id: id, namespace, satellite }) {
  const name = shortId(id);
  confirmed(`Execution ${name} of ${satellite}: what it has done stays done.`, async () => {
    const path = `v1/satellites/${[namespace, satellite, id].map(encodeURIComponent).join("/")}/cancel`;
    if ((await ask("POST", path, bare)) !== undefined) tell(`Execution ${name} is cancelled`);
  });
}

function confirmed(text, act) {
  const dialog = byId("confirm");
  setText(byId("confirm-text"), text);
  dialog.returnValue = "keep";
  dialog.onclose = () => {
    if (dialog.returnValue === "cancel") act();
  };
  dialog.showModal();
}

async function download(task) {
  const name = shortId(task.task_id);
  tell(`The answers of task ${name} are being loaded`);
  const response = await ask("GET", `v0/files/output/${encodeURIComponent(task.task_id)}`);
  if (response === undefined) return;
  const isPart = response.headers.get("x-incomplete") === "true";
  const blob = await response.blob().catch(() => undefined);
  if (blob === undefined) {
    complain("The download broke off. Try it again.");
    return;
  }
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `perigee-${name}${isPart ? "-part" : ""}.jsonl`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  tell(`The answers of task ${name} are downloaded${isPart ? ", as far as they have arrived" : ""}`);
}

/** The key as satellites take it, with no scheme word. */
const bare = (key) => key;

/** Undefined after a failure, which the user has seen. */
async function ask(method, path, headerOf = (key) => `Bearer ${key}`) {
  complain("");
  const key = sessionStorage.getItem(KEY_NAME) ?? "";
  let response;
  try {
    response = await fetch(path, { method, headers: { authorization: headerOf(key) }, cache: "no-store" });
  } catch {
    complain("The service could not be reached. Try it again.");
    return undefined;
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => undefined);
  complain(body?.error?.message ?? `The service answered with status ${response.status}.`);
  return undefined;
}

/** For screen readers: what has happened. */
function tell(text) {
  setText(byId("said"), text);
}

function complain(text) {
  setText(byId("notice"), text);
  byId("notice").hidden = text === "";
}
