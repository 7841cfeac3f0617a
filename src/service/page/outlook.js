/**
 * The first thing that is seen: when all open work will be done, what it has cost and will have cost, and whether something is wrong.
 */
import { byId, setAttribute, setText } from "./dom.js";
import { clockTime, compact, count, duration, moment, percent, usd } from "./format.js";

/** Minutes that health is about. */
const RECENT = 15;

/** `recent` are the sums of the last minutes. */
export function showOutlook({ outlook, lanes, time }, recent) {
  showEnd(outlook, time);
  showCost(outlook);
  const closed = lanes.filter(({ state }) => state !== "open").length;
  const [items, failed, refused] = ["items", "failed", "refused"].map((name) =>
    sum(recent[name].slice(-RECENT)),
  );
  const share = failed / Math.max(1, items + failed);
  const isBad = closed > 0 || share > 0.05;
  setText(
    byId("health"),
    closed > 0 ? `${count(closed)} of ${count(lanes.length)} limits closed` : isBad ? "Errors" : "Good",
  );
  setAttribute(byId("health"), "class", `value ${isBad ? "bad" : "good"}`);
  const words = `${percent(share)} failed, ${compact(refused)} refused with 429 in ${RECENT} min`;
  setText(byId("health-note"), words);
}

function showEnd(outlook, nowMs) {
  const {
    open_tasks: tasks,
    open_items: items,
    expected_end_at: endMs,
    unknown_tasks: unknown,
    late_tasks: late,
  } = outlook;
  const isIdle = tasks === 0;
  setText(
    byId("eta"),
    isIdle
      ? "Nothing to do"
      : endMs === null
        ? "Not known yet"
        : endMs <= nowMs + 1_000
          ? "Any moment"
          : `In ${duration(endMs - nowMs)}`,
  );
  byId("eta").title = endMs === null ? "" : moment(endMs);
  const open = `${count(items)} ${items === 1 ? "item" : "items"} of ${count(tasks)}${outlook.is_partial ? " recent" : ""} open ${tasks === 1 ? "task" : "tasks"}`;
  const at = endMs === null ? "" : `at ${clockTime(endMs, nowMs)}, `;
  setText(byId("eta-note"), isIdle ? "No task is open" : at + open);
  const doubts = [
    late > 0 ? `${count(late)} will be late` : "",
    unknown > 0 && endMs !== null ? `the end of ${count(unknown)} is not known` : "",
  ].filter(Boolean);
  setText(byId("eta-doubt"), doubts.join(", "));
  setAttribute(byId("eta-doubt"), "class", late > 0 ? "note bad-text" : "note warn-text");
}

function showCost({
  billed_usd: billed,
  expected_usd: expected,
  uncosted_tasks: unknown,
  open_tasks: tasks,
}) {
  setText(byId("cost"), usd(billed));
  const rest = unknown > 0 ? `, without ${count(unknown)} not begun` : "";
  const note =
    expected === null
      ? "so far; what to expect is not known yet"
      : `so far, ${usd(expected)} expected${rest}`;
  setText(byId("cost-note"), tasks === 0 ? "of open tasks" : note);
}

function sum(values) {
  return values.reduce((total, value) => total + value, 0);
}
