/**
 * Open batches at providers: what is in them, how far the provider says they are, and when it is asked next.
 */
import { byId, keepList, make, makeTrack, setAttribute, setShare, setText } from "./dom.js";
import { compact, duration } from "./format.js";

const views = new Map();

/** Why a batch waits; what else may happen is an answer that did not come. */
const REASONS = {
  account: "The account has no money, or no right to this. It is tried again.",
  full: "As much is with the provider as it takes. It is tried again.",
};

/** `more`: how many others are open. */
export function showBatches(batches, more) {
  byId("batches-section").hidden = batches.length === 0;
  setText(byId("batches-more"), more > 0 ? `and ${compact(more)} more` : "");
  keepList(byId("batches"), views, batches, ({ tag }) => tag, makeBatch, updateBatch);
}

function makeBatch({ tag, model }) {
  const view = {
    state: make("span", "badge"),
    times: make("span", "lane-waiting"),
    reason: make("p", "sub warn-text"),
    done: make("span", "limit-use"),
    ...makeTrack("completed"),
  };
  view.track.setAttribute("role", "progressbar");
  view.track.setAttribute("aria-label", `Progress of batch ${tag}`);
  view.track.setAttribute("aria-valuemin", "0");
  view.name = make("code", "batch-id");
  view.element = make(
    "li",
    "batch",
    make("div", "batch-head", make("span", "batch-model", model), view.name, view.state, view.times),
    make("div", "batch-done", view.track, view.done),
    view.reason,
  );
  return view;
}

function updateBatch(view, batch) {
  const { id, tag, items, items_open: open, finished, reason } = batch;
  setText(view.name, id ?? tag);
  const [text, kind] = stateOf(batch);
  setText(view.state, text);
  setAttribute(view.state, "data-kind", kind);
  setText(view.times, timesOf(batch));
  setText(view.reason, REASONS[reason] ?? "The provider did not answer as expected. It is tried again.");
  view.reason.hidden = reason === null;
  const done = Math.max(items - open, finished ?? 0);
  const isTold = finished !== null || done > 0;
  setText(
    view.done,
    isTold ? `${compact(done)} of ${compact(items)}` : `${compact(items)} items, progress not shown`,
  );
  setShare(view.fills[0], items === 0 ? 0 : done / items);
  setAttribute(view.track, "aria-valuemax", String(items));
  setAttribute(view.track, "aria-valuenow", String(done));
}

function timesOf({ age_ms: ageMs, next_poll_ms: nextMs }) {
  const age = ageMs === null ? "not created yet" : `created ${duration(ageMs)} ago`;
  return `${age}, ${nextMs === null ? "asked now" : `next poll in ${duration(nextMs)}`}`;
}

function stateOf({ state, reason }) {
  if (reason !== null) return ["Waits", "warn"];
  if (state === "running") return ["At work", "run"];
  if (state === "cancelling") return ["Cancelling", "warn"];
  if (state === "ended" || state === "collecting" || state === "ingested") return ["Collecting", "good"];
  return ["Being submitted", "idle"];
}
