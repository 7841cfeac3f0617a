/**
 * The operator page: asks for the key once, follows the feed, shows it, and passes clicks on.
 *
 *   no key -> (typed) -> following -> refused or forgotten -> no key
 *
 * The key is kept in sessionStorage: for this tab, until it is closed.
 */
import { showBatches } from "./batches.js";
import { Chart } from "./chart.js";
import { showCode } from "./code_panel.js";
import { Day } from "./day.js";
import { byId, setAttribute, setText } from "./dom.js";
import { Feed } from "./feed.js";
import { showFleet } from "./fleet.js";
import { compact, count, duration, moment, percent, rate, shortId, usd } from "./format.js";
import { showErrors, showLanes } from "./lanes.js";
import { showOutlook } from "./outlook.js";
import { Satellites } from "./satellites.js";
import { ask, bare, download, forgetKey, keepKey, knownKey, tell } from "./service.js";
import { openSubmit } from "./submit.js";
import { TaskPanel } from "./task_panel.js";
import { TaskTable } from "./tasks.js";

const REFUSALS = {
  401: "This key is not accepted. It may be mistyped, expired or revoked.",
  403: "This key may not read tasks: it needs the scope infer:read.",
};

const chart = new Chart(byId("chart"));
const day = new Day();
const panel = new TaskPanel();
const table = new TaskTable({
  open: (task) => panel.open(task),
  cancel: askToCancel,
  download: (task) => download(task, shortId(task.task_id)),
});
const satellites = new Satellites({ cancelCluster, cancelExecution });
/** Where earlier pages of tasks began; the last entry is the page that is shown. */
let pages = [null];
let hasMore = false;
let lastTaskId = null;
let feed = null;
/** The last snapshot. */
let shown = null;
let countdown = null;

byId("login-form").addEventListener("submit", (event) => {
  event.preventDefault();
  const key = byId("key").value.trim();
  if (key !== "") follow(key);
});
byId("forget").addEventListener("click", () => leave(""));
byId("submit-open").addEventListener("click", () => openSubmit(shown));
byId("older").addEventListener("click", () => turn([...pages, lastTaskId]));
byId("newer").addEventListener("click", () => turn(pages.slice(0, -1)));

const known = knownKey();
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
      if (name === "day") day.add(data);
      if (name === "snapshot") show(data);
    },
    onState: (state, detail) => stateChanged(state, detail),
  });
}

function open(key) {
  keepKey(key);
  byId("key").value = "";
  byId("login").hidden = true;
  byId("board").hidden = false;
  byId("forget").hidden = false;
  byId("submit-open").hidden = false;
}

/** Back to the question for a key. */
function leave(problem) {
  feed?.stop();
  feed = null;
  clearInterval(countdown);
  forgetKey();
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
  byId("board").hidden = true;
  byId("forget").hidden = true;
  byId("submit-open").hidden = true;
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
  shown = snapshot;
  day.add(snapshot.minutes);
  showOutlook(snapshot, day.sums);
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
  showLanes(snapshot.lanes, snapshot.shared_limits);
  showBatches(snapshot.batches, snapshot.batches_more);
  showFleet(snapshot.fleet);
  showErrors(errors, (code) => showCode(code, shown.tasks.items, (task) => panel.open(task)));
  showTasks(tasks, time);
  panel.update(tasks.items, time);
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
    if ((await ask("POST", path, { headerOf: bare })) !== undefined) tell(`Cluster ${name} is cancelled`);
  });
}

function cancelExecution({ execution_id: id, namespace, satellite }) {
  const name = shortId(id);
  confirmed(`Execution ${name} of ${satellite}: what it has done stays done.`, async () => {
    const path = `v1/satellites/${[namespace, satellite, id].map(encodeURIComponent).join("/")}/cancel`;
    if ((await ask("POST", path, { headerOf: bare })) !== undefined) tell(`Execution ${name} is cancelled`);
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
