/**
 * One task in full: its states, times, cost, how long answers take, and its failed lines, to run again or to download.
 *
 *   closed -> open (its lines are read once, and again on request) -> closed
 *
 * Limits: the first 1,000 failed lines are counted by code and 50 of them shown; latencies are of the first 200 items.
 */
import { byId, make, makeTrack, setAttribute, setShare, setText } from "./dom.js";
import { errorsOf } from "./errors_of_task.js";
import { clockTime, compact, count, latency, moment, shortId, usd } from "./format.js";
import { ask, askJson, download } from "./service.js";
import { endOf, isFinal, nameOf, statusOf } from "./tasks.js";

const READ_MAX = 1_000;
const SHOWN_MAX = 50;
const LATENCIES_MAX = 200;
const STATES = [
  ["completed", "Answered"],
  ["failed", "Failed"],
  ["expired", "Expired"],
  ["cancelled", "Cancelled"],
  ["submitted", "Open"],
];

export class TaskPanel {
  #task = null;
  #reading = new AbortController();
  #bar = makeTrack("completed", "failed", "ended");

  constructor() {
    const { track } = this.#bar;
    setAttribute(track, "role", "img");
    byId("task-bar").append(track);
    byId("task-panel").addEventListener("close", () => {
      this.#reading.abort();
      this.#task = null;
    });
    byId("task-close").addEventListener("click", () => byId("task-panel").close());
    byId("task-download").addEventListener("click", () => download(this.#task, shortId(this.#task.task_id)));
    byId("task-errors").addEventListener("click", () =>
      download(this.#task, shortId(this.#task.task_id), "errors"),
    );
    byId("task-retry").addEventListener("click", () => this.#retry());
    byId("task-refresh").addEventListener("click", () => this.#read());
  }

  open(task, nowMs = Date.now()) {
    this.#task = task;
    say("");
    setText(byId("task-latency"), "");
    byId("failed-lines").replaceChildren();
    byId("failed-codes").replaceChildren();
    this.#show(nowMs);
    byId("task-panel").showModal();
    byId("task-panel").scrollTop = 0;
    this.#read();
  }

  /** Shows it as a snapshot has it; a task of another page stays as it was. */
  update(tasks, nowMs) {
    const found = tasks.find(({ task_id: id }) => id === this.#task?.task_id);
    if (found === undefined) return;
    this.#task = found;
    this.#show(nowMs);
  }

  #show(nowMs) {
    const task = this.#task;
    const { counts, total_items: total } = task;
    setText(byId("task-heading"), nameOf(task));
    setText(byId("task-id"), task.task_id);
    const [text, kind] = statusOf(task);
    setText(byId("task-status"), text);
    setAttribute(byId("task-status"), "data-kind", kind);
    const parts = [counts.completed, counts.failed, counts.expired + counts.cancelled];
    parts.forEach((part, index) => {
      setShare(this.#bar.fills[index], total === 0 ? 0 : part / total);
    });
    const states = STATES.filter(([name]) => counts[name] > 0).map(([name, what]) => [
      what,
      count(counts[name]),
    ]);
    setAttribute(
      this.#bar.track,
      "aria-label",
      states.map(([what, number]) => `${what} ${number}`).join(", "),
    );
    showFacts(byId("task-states"), [["Items", count(total)], ...states]);
    showFacts(byId("task-facts"), factsOf(task, nowMs));
    byId("task-retry").disabled = counts.failed + counts.expired === 0;
    byId("task-errors").disabled = counts.failed + counts.expired + counts.cancelled === 0;
    byId("task-download").disabled = task.status === "failed";
  }

  async #read() {
    this.#reading.abort();
    const reading = new AbortController();
    this.#reading = reading;
    const { task_id: id, counts } = this.#task;
    setText(
      byId("failed-note"),
      counts.failed + counts.expired + counts.cancelled === 0 ? "No line has failed." : "Reading…",
    );
    const complainTo = (text) => text !== "" && say(text); // what a retry has said stays
    const options = { signal: reading.signal, complainTo };
    const [lines] = await Promise.all([readLines(id, options), showLatency(id, options)]);
    if (!reading.signal.aborted) showLines(lines, (codes) => this.#retry(codes));
  }

  /** All that are retryable, or those of the codes. */
  async #retry(codes) {
    const { task_id: id } = this.#task;
    byId("task-retry").disabled = true;
    const body = codes === undefined ? {} : { codes };
    const path = `v0/infer/task/${encodeURIComponent(id)}/retry`;
    const response = await askJson("POST", path, body, { complainTo: say });
    byId("task-retry").disabled = false;
    if (response === undefined || this.#task?.task_id !== id) return;
    const { retried, hint } = await response.json();
    say(
      retried > 0
        ? `${count(retried)} ${retried === 1 ? "line runs" : "lines run"} again.`
        : (hint ?? "No line runs again."),
    );
    if (retried > 0) this.#read();
  }
}

function factsOf(task, nowMs) {
  const [end, endNote] = endOf(task, nowMs);
  return [
    [isFinal(task) ? "Ended" : "Done", [end, endNote].filter(Boolean).join(", ")],
    ["Submitted", moment(task.created_at)],
    ["Deadline", task.deadline_at === null ? "None" : clockTime(task.deadline_at, nowMs)],
    [
      "Billed",
      usd(task.billed_usd) +
        (isFinal(task) || task.expected_usd === null ? "" : ` of ${usd(task.expected_usd)} expected`),
    ],
    ["Charged", `${usd(task.usd)}, list ${usd(task.list_usd)}`],
    ["Tokens", `${compact(task.input_tokens)} in, ${compact(task.output_tokens)} out`],
    ...(task.models.length > 0 ? [["Models", task.models.join(", ")]] : []),
    ...(task.retries > 0 ? [["Retried", `${count(task.retries)} times`]] : []),
    ...(task.held.length > 0
      ? [["Held", task.held.map(({ reason }) => reason.replaceAll("_", " ")).join(", ")]]
      : []),
  ];
}

/** Replaces only what has changed: a text that is selected stays. */
function showFacts(list, facts) {
  const names = facts.map(([name]) => name).join("\n");
  if (list.dataset.names !== names) {
    list.dataset.names = names;
    list.replaceChildren(...facts.map(([name]) => make("div", "fact", make("dt", "", name), make("dd"))));
  }
  facts.forEach(([, text], index) => {
    setText(list.children[index].lastElementChild, text);
  });
}

async function readLines(id, options) {
  const lines = [];
  try {
    for await (const line of errorsOf(id, options)) {
      lines.push(line);
      if (lines.length === READ_MAX) break;
    }
  } catch {
    if (!options.signal.aborted) say("The failed lines broke off. Read them again.");
  }
  return lines;
}

async function showLatency(id, options) {
  const response = await ask(
    "GET",
    `v0/infer/task/${encodeURIComponent(id)}?limit=${LATENCIES_MAX}`,
    options,
  );
  const { objects = [] } = (await response?.json().catch(() => undefined)) ?? {};
  if (options.signal.aborted) return;
  const times = objects.flatMap(({ latency_ms: ms }) => (ms === undefined ? [] : [ms])).sort((a, b) => a - b);
  if (times.length === 0) return;
  const at = (share) => latency(times[Math.min(times.length - 1, Math.floor(times.length * share))]);
  setText(
    byId("task-latency"),
    `Answers took ${at(0.5)} in the middle and ${at(0.95)} at 95 %, of the first ${count(times.length)}.`,
  );
}

function showLines(lines, retry) {
  const codes = new Map();
  for (const { code } of lines) codes.set(code, (codes.get(code) ?? 0) + 1);
  byId("failed-codes").replaceChildren(
    ...[...codes]
      .sort((a, b) => b[1] - a[1])
      .map(([code, times]) => {
        const again = make("button", "", "Retry these");
        again.type = "button";
        again.setAttribute("aria-label", `Retry these with ${code}`);
        again.addEventListener("click", () => retry([code]));
        return make("li", "", make("code", "", code), make("span", "sub", `${count(times)} lines`), again);
      }),
  );
  byId("failed-lines").replaceChildren(...lines.slice(0, SHOWN_MAX).map(lineElement));
  const isCut = lines.length === READ_MAX;
  setText(
    byId("failed-note"),
    lines.length === 0
      ? "No line has failed."
      : `${isCut ? "The first " : ""}${count(lines.length)} failed ${lines.length === 1 ? "line" : "lines"}${lines.length > SHOWN_MAX ? `; ${SHOWN_MAX} are shown, the download has all` : ""}.`,
  );
}

/** A failed line: its key, its code, and what happened. */
export function lineElement({ key, code, message, attempts, status }) {
  const facts = [
    status === undefined ? "" : `HTTP ${status}`,
    attempts > 1 ? `${attempts} attempts` : "",
  ].filter(Boolean);
  return make(
    "li",
    "failed-line",
    make(
      "div",
      "failed-head",
      make("code", "failed-key", key),
      make("code", "bad-text", code),
      make("span", "sub", facts.join(", ")),
    ),
    make("p", "", message),
  );
}

function say(text) {
  setText(byId("task-said"), text);
}
