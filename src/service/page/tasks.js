/**
 * The table of tasks: a page of 50, newest first, each with its progress, deadline, slack, cost and what can be done.
 */
import { byId, keepList, make, makeTrack, setAttribute, setShare, setText } from "./dom.js";
import { clockTime, compact, count, duration, fromNow, moment, shortId, usd } from "./format.js";

export class TaskTable {
  #views = new Map();
  #actions;

  /** `actions` are `{ cancel(task), download(task) }`. */
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
      created: make("div", "sub"),
      status: make("span", "badge"),
      held: make("div", "sub warn-text"),
      done: make("span"),
      share: make("span", "sub"),
      ended: make("div", "sub"),
      deadline: make("div"),
      deadlineAt: make("div", "sub"),
      slack: make("div"),
      slackNote: make("div", "sub"),
      billed: make("div"),
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
    make("td", "", id, view.created),
    make("td", "status", view.status, view.held),
    make("td", "progress", view.done, view.share, view.track, view.ended),
    labelled("Deadline", make("td", "", view.deadline, view.deadlineAt)),
    labelled("Slack", make("td", "", view.slack, view.slackNote)),
    labelled("Billed", make("td", "number", view.billed, view.ambiguous)),
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
  setText(view.created, fromNow(task.created_at - nowMs));
  view.created.title = moment(task.created_at);
  setText(view.held, task.held.map(heldText).join(", "));
  updateProgress(view, task);
  updateTimes(view, task, nowMs);
  setText(view.billed, usd(task.billed_usd));
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
  const { deadline_at: deadlineAt, slack_ms: slackMs } = task;
  if (deadlineAt === null) {
    setText(view.deadline, "None");
    setText(view.deadlineAt, "");
  } else {
    setText(view.deadline, fromNow(deadlineAt - nowMs));
    setText(view.deadlineAt, clockTime(deadlineAt, nowMs));
    view.deadlineAt.title = moment(deadlineAt);
  }
  const isLate = slackMs !== null && slackMs < 0;
  setText(view.slack, slackMs === null ? "\u2013" : `${isLate ? "\u2212" : ""}${duration(slackMs)}`);
  view.slack.className = isLate ? "bad-text" : "";
  setText(view.slackNote, slackNote(task, isLate));
}

function slackNote(task, isLate) {
  if (task.deadline_at === null) return "";
  if (task.slack_ms === null) return task.held.length > 0 ? "unknown while held" : "not known yet";
  if (isFinal(task)) return isLate ? "ended late" : "ended early";
  return isLate ? "will be late" : "to spare";
}

function isFinal(task) {
  return task.status !== "submitted";
}

function statusOf(task) {
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
