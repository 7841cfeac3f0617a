/**
 * The table of tasks: a page of 50, newest first, each with when it will be done, its progress, deadline, cost and what can be done.
 */
import { byId, keepList, make, makeTrack, setAttribute, setShare, setText } from "./dom.js";
import { clockTime, compact, count, duration, fromNow, moment, shortId, usd } from "./format.js";

export class TaskTable {
  #views = new Map();
  #actions;

  /** `actions` are `{ open(task), cancel(task), download(task) }`. */
  constructor(actions) {
    this.#actions = actions;
    // Shown as cards, it would not be a table for screen readers.
    byId("tasks").setAttribute("role", "table");
    byId("task-rows").setAttribute("role", "rowgroup");
  }

  /** Tasks of a snapshot that was made at `nowMs`. */
  show(tasks, nowMs) {
    byId("tasks-empty").hidden = tasks.length > 0;
    byId("tasks").hidden = tasks.length === 0;
    keepList(
      byId("task-rows"),
      this.#views,
      tasks,
      ({ task_id: id }) => id,
      (task) => this.#make(task),
      (view, task) => update(view, task, nowMs),
    );
  }

  #make(task) {
    const name = shortId(task.task_id);
    const view = {
      task,
      name: make("button", "link name"),
      created: make("span"),
      end: make("div", "end"),
      endNote: make("div", "sub"),
      status: make("span", "badge"),
      held: make("div", "sub warn-text"),
      done: make("span"),
      share: make("span", "sub"),
      ended: make("div", "sub"),
      deadline: make("div"),
      deadlineAt: make("span", "sub"),
      slack: make("div", "sub"),
      billed: make("div"),
      expected: make("div", "sub"),
      ambiguous: make("div", "sub"),
      charged: make("div"),
      list: make("div", "sub"),
      cancel: make("button", "", "Cancel"),
      download: make("button", "", "Download"),
      ...makeTrack("completed", "failed", "ended"),
    };
    for (const [button, words] of [
      [view.cancel, `Cancel task ${name}`],
      [view.download, `Download the answers of task ${name}`],
    ]) {
      button.type = "button";
      button.setAttribute("aria-label", words);
    }
    view.name.type = "button";
    view.name.addEventListener("click", () => this.#actions.open(view.task));
    view.cancel.addEventListener("click", () => this.#actions.cancel(view.task));
    view.download.addEventListener("click", () => this.#actions.download(view.task));
    view.track.setAttribute("role", "progressbar");
    view.track.setAttribute("aria-label", `Progress of task ${name}`);
    view.track.setAttribute("aria-valuemin", "0");
    view.element = rowOf(view, name);
    return view;
  }
}

function rowOf(view, name) {
  const id = make("code", "", name);
  id.title = view.task.task_id;
  const row = make(
    "tr",
    "",
    make("td", "task-name", view.name, make("div", "sub", id, " ", view.created)),
    labelled("Done", make("td", "", view.end, view.endNote)),
    make("td", "status", view.status, view.held),
    make("td", "progress", make("div", "", view.done, view.share), view.track, view.ended),
    labelled("Deadline", make("td", "", view.deadline, view.slack)),
    labelled("Billed", make("td", "number", view.billed, view.expected, view.ambiguous)),
    labelled("Charged", make("td", "number", view.charged, view.list)),
    make("td", "acts", make("div", "actions", view.cancel, view.download)),
  );
  row.setAttribute("role", "row");
  for (const cell of row.children) cell.setAttribute("role", "cell");
  return row;
}

/** The label shows where the table is a list of cards. */
function labelled(text, cell) {
  cell.dataset.label = text;
  return cell;
}

function update(view, task, nowMs) {
  view.task = task;
  const [text, kind] = statusOf(task);
  setText(view.status, text);
  setAttribute(view.status, "data-kind", kind);
  setText(view.name, nameOf(task));
  setText(view.created, fromNow(task.created_at - nowMs));
  view.created.title = moment(task.created_at);
  setText(view.held, task.held.map(heldText).join(", "));
  updateProgress(view, task);
  updateTimes(view, task, nowMs);
  setText(view.billed, usd(task.billed_usd));
  const { expected_usd: expected } = task;
  setText(view.expected, isFinal(task) || expected === null ? "" : `${usd(expected)} expected`);
  setText(view.ambiguous, task.ambiguous_usd > 0 ? `up to ${usd(task.ambiguous_usd)} in doubt` : "");
  setText(view.charged, usd(task.usd));
  setText(view.list, `list ${usd(task.list_usd)}`);
  view.cancel.hidden = isFinal(task);
  view.cancel.disabled = task.is_cancelled;
  view.download.disabled = task.status === "failed";
}

/** Why items wait, how many, since when. */
function heldText({ reason, provider, items, since, code, provider_status: status }) {
  const who = provider === undefined ? "" : ` of ${provider}`;
  const words = reason.replaceAll("_", " ");
  const last = [code === reason ? undefined : code, status && `HTTP ${status}`].filter(Boolean).join(", ");
  return `${compact(items)} held: ${words}${who}${last && ` (${last})`} since ${clockTime(Date.parse(since), Date.now())}`;
}

function updateProgress(view, { counts, total_items: total }) {
  const settled = total - counts.submitted;
  const share = total === 0 ? 1 : settled / total;
  const ended = counts.expired + counts.cancelled;
  setText(view.done, `${compact(settled)} of ${compact(total)}`);
  setText(view.share, ` ${Math.floor(share * 100)} %`);
  [counts.completed, counts.failed, ended].forEach((part, index) => {
    setShare(view.fills[index], total === 0 ? 0 : part / total);
  });
  const parts = [
    [counts.failed, "failed"],
    [counts.expired, "expired"],
    [counts.cancelled, "cancelled"],
  ].filter(([number]) => number > 0);
  setText(view.ended, parts.map(([number, what]) => `${count(number)} ${what}`).join(", "));
  setAttribute(view.track, "aria-valuemax", String(total));
  setAttribute(view.track, "aria-valuenow", String(settled));
}

function updateTimes(view, task, nowMs) {
  const { deadline_at: deadlineAt } = task;
  const [end, endNote, endMs] = endOf(task, nowMs);
  setText(view.end, end);
  setText(view.endNote, endNote);
  view.end.title = endMs === null ? "" : moment(endMs);
  setText(view.deadline, deadlineAt === null ? "None" : clockTime(deadlineAt, nowMs));
  view.deadline.title = deadlineAt === null ? "" : `${moment(deadlineAt)}, ${fromNow(deadlineAt - nowMs)}`;
  const isLate = task.slack_ms !== null && task.slack_ms < 0;
  setText(view.slack, slackText(task, isLate));
  view.slack.className = isLate ? "sub bad-text" : "sub";
}

/** When it is done: words, a note and the moment. */
export function endOf(task, nowMs) {
  const { finished_at: finishedMs, expected_end_at: expectedMs, held } = task;
  if (isFinal(task)) {
    const took = finishedMs === null ? "" : `took ${duration(finishedMs - task.created_at)}`;
    return [finishedMs === null ? "Ended" : fromNow(finishedMs - nowMs), took, finishedMs];
  }
  if (expectedMs === null) return [held.length > 0 ? "Held" : "Not known yet", "", null];
  const isNow = expectedMs - nowMs < 1_000;
  return [
    isNow ? "Any moment" : `In ${duration(expectedMs - nowMs)}`,
    `at ${clockTime(expectedMs, nowMs)}`,
    expectedMs,
  ];
}

function slackText(task, isLate) {
  if (task.deadline_at === null) return "";
  if (task.slack_ms === null)
    return task.held.length > 0 ? "slack unknown while held" : "slack not known yet";
  const by = duration(task.slack_ms);
  if (isFinal(task)) return isLate ? `ended ${by} late` : `ended ${by} early`;
  return isLate ? `will be ${by} late` : `${by} to spare`;
}

/** What people call it: a name of its metadata, its file, its model; else its id. */
export function nameOf({ name, task_id: id }) {
  return name ?? `Task ${shortId(id)}`;
}

export function isFinal(task) {
  return task.status !== "submitted";
}

export function statusOf(task) {
  const { status, counts, total_items: total } = task;
  if (status === "failed") return ["Failed", "bad"];
  if (status === "completed") {
    if (task.is_cancelled) return ["Cancelled", "idle"];
    if (counts.completed === total) return ["Done", "good"];
    return counts.completed === 0 ? ["No answers", "bad"] : ["Done, some errors", "warn"];
  }
  if (task.is_cancelled) return ["Cancelling", "warn"];
  return counts.submitted === total ? ["Waiting", "idle"] : ["Running", "run"];
}
