/**
 * The fleet that the service is part of, for keys that may see it: its workers, their partitions, and partitions without a worker.
 */
import { byId, keepList, make, setAttribute, setText } from "./dom.js";
import { count, moment } from "./format.js";

const views = new Map();

/** `fleet` is undefined for a service by itself, and for keys without the scope `admin`. */
export function showFleet(fleet) {
  byId("fleet-section").hidden = fleet === undefined;
  if (fleet === undefined) return;
  const { worker, workers, free_partitions: free } = fleet;
  setText(byId("fleet-worker"), `This page is served by ${worker}`);
  const isOne = free.length === 1;
  const left = isOne ? `Partition ${free[0]} has` : `${count(free.length)} partitions have`;
  setText(
    byId("fleet-free"),
    `${left} no worker: ${isOne ? "its" : "their"} requests wait until one takes ${isOne ? "it" : "them"}.`,
  );
  byId("fleet-free").hidden = free.length === 0;
  keepList(byId("fleet"), views, workers, keyOf, makeWorker, updateWorker);
}

/** A name may occur twice: the time tells them apart. */
function keyOf({ name, started_at: startedAt }) {
  return `${name} ${startedAt}`;
}

function makeWorker({ name, role, version, started_at: startedAt }) {
  const state = make("span", "badge");
  const parts = make("span", "lane-waiting");
  const terms = `${ROLES[role] ?? role}, version ${version}, since ${moment(Date.parse(startedAt))}`;
  const head = make("div", "batch-head", make("span", "batch-model", name), state, parts);
  return { element: make("li", "batch", head, make("p", "hint", terms)), state, parts };
}

const ROLES = {
  all: "Answers callers and owns partitions",
  api: "Answers callers",
  worker: "Owns partitions",
};

function updateWorker(view, { state, partitions }) {
  setText(view.state, state === "leaving" ? "Leaving" : "Working");
  setAttribute(view.state, "data-kind", state === "leaving" ? "warn" : "good");
  setText(view.parts, partsText(partitions));
}

function partsText(partitions) {
  if (partitions.length === 0) return "no partition";
  return `${partitions.length === 1 ? "partition" : "partitions"} ${partitions.join(", ")}`;
}
