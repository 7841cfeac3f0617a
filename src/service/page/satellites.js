/**
 * Runs of clusters, each with its graph, and executions of satellites.
 */
import { byId, keepList, make, setAttribute, setText } from "./dom.js";
import { clockTime, duration, fromNow, moment, shortId } from "./format.js";
import { Graph } from "./graph.js";

const KINDS = { pending: "run", completed: "good", failed: "bad", expired: "bad", cancelled: "idle" };

export class Satellites {
  #clusters = new Map();
  #executions = new Map();
  #actions;

  /** `actions` are `{ cancelCluster(cluster), cancelExecution(execution) }`. */
  constructor(actions) {
    this.#actions = actions;
  }

  /** Absent in a snapshot for a key that may not see them. */
  show({ clusters, executions, time: nowMs }) {
    byId("clusters-section").hidden = clusters === undefined;
    byId("executions-section").hidden = executions === undefined;
    if (clusters === undefined || executions === undefined) return;
    byId("clusters-empty").hidden = clusters.length > 0;
    byId("executions-empty").hidden = executions.length > 0;
    keepList(
      byId("clusters"),
      this.#clusters,
      clusters,
      ({ cluster_id: id }) => id,
      (cluster) => this.#makeCluster(cluster, this.#clusters.size === 0),
      (view, cluster) => updateCluster(view, cluster, nowMs),
    );
    keepList(
      byId("executions"),
      this.#executions,
      executions,
      ({ execution_id: id }) => id,
      (execution) => this.#makeExecution(execution),
      (view, execution) => updateExecution(view, execution, nowMs),
    );
  }

  #makeCluster(cluster, isOpen) {
    const name = shortId(cluster.cluster_id);
    const view = {
      cluster,
      status: make("span", "badge"),
      members: make("span", "sub"),
      times: make("span", "sub"),
      error: make("span", "sub bad-text"),
      cancel: cancelButton(`Cancel cluster ${name}`),
      graph: new Graph(),
    };
    view.cancel.addEventListener("click", () => this.#actions.cancelCluster(view.cluster));
    const id = make("code", "", name);
    id.title = cluster.cluster_id;
    const summary = make("summary", "", id, view.status, view.members, view.times, view.error);
    view.details = make("details", "", summary, view.graph.element);
    view.details.open = isOpen;
    view.details.addEventListener("toggle", () => {
      if (view.details.open) view.graph.show(view.cluster.members, view.nowMs);
    });
    view.element = make("li", "cluster", view.details, make("div", "actions", view.cancel));
    return view;
  }

  #makeExecution(execution) {
    const name = shortId(execution.execution_id);
    const view = {
      execution,
      status: make("span", "badge"),
      notes: make("span", "sub"),
      times: make("span", "sub"),
      cancel: cancelButton(`Cancel execution ${name}`),
    };
    view.cancel.addEventListener("click", () => this.#actions.cancelExecution(view.execution));
    const id = make("code", "", name);
    id.title = execution.execution_id;
    view.element = make(
      "li",
      "execution",
      make("div", "execution-head", id, make("span", "execution-name", nameOf(execution)), view.status),
      make("div", "execution-notes", view.times, view.notes),
      make("div", "actions", view.cancel),
    );
    return view;
  }
}

function cancelButton(words) {
  const button = make("button", "", "Cancel");
  button.type = "button";
  button.setAttribute("aria-label", words);
  return button;
}

function nameOf({ namespace, satellite }) {
  return `${namespace}/${satellite}`;
}

function updateCluster(view, cluster, nowMs) {
  const { status, members, member_count: total, error_code: errorCode } = cluster;
  view.cluster = cluster;
  view.nowMs = nowMs;
  setText(view.status, status);
  setAttribute(view.status, "data-kind", KINDS[status] ?? "idle");
  const done = members.filter((member) => !["waiting", "pending"].includes(member.status)).length;
  setText(view.members, `${done} of ${total} members done`);
  setText(view.times, timesOf(cluster, nowMs));
  view.times.title = moment(cluster.created_at);
  setText(view.error, errorCode === status ? "" : (errorCode ?? "")); // "cancelled" is said already
  view.cancel.hidden = status !== "pending";
  if (view.details.open) view.graph.show(members, nowMs);
}

function updateExecution(view, execution, nowMs) {
  const { status, phase, retries, progress, error_code: errorCode } = execution;
  view.execution = execution;
  setText(view.status, status === "pending" && phase !== null ? phase : status);
  setAttribute(view.status, "data-kind", phase === "queued" ? "idle" : (KINDS[status] ?? "idle"));
  const notes = [];
  if (progress !== null)
    notes.push(
      progress.total === undefined ? `${progress.done} done` : `${progress.done} of ${progress.total}`,
    );
  if (retries > 0) notes.push(`${retries} ${retries === 1 ? "retry" : "retries"}`);
  if (errorCode !== null && errorCode !== status) notes.push(errorCode);
  setText(view.notes, notes.join(" \u00b7 "));
  view.notes.classList.toggle("bad-text", errorCode !== null && errorCode !== status);
  setText(view.times, timesOf(execution, nowMs));
  view.times.title = moment(execution.created_at);
  view.cancel.hidden = status !== "pending";
}

function timesOf({ status, created_at: createdAt, updated_at: updatedAt, deadline_at: deadlineAt }, nowMs) {
  if (status === "pending") return `${fromNow(createdAt - nowMs)} \u00b7 due ${fromNow(deadlineAt - nowMs)}`;
  return `${clockTime(createdAt, nowMs)} \u00b7 took ${duration(Math.max(0, updatedAt - createdAt))}`;
}
