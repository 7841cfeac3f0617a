/**
 * The limits of each lane, and those that lanes share, how much of them is used, and errors by code.
 */
import { byId, keepList, make, makeTrack, setAttribute, setShare, setText } from "./dom.js";
import { compact, count, duration, latency } from "./format.js";

/** Use from here on is close to the limit. */
const HIGH = 0.9;
/** Names of lanes that share a limit. */
const NAMES_MAX = 6;

const laneViews = new Map();
const sharedViews = new Map();
const errorViews = new Map();

/** `shared` are limits that several lanes of a provider use together: shown once, before the lanes. */
export function showLanes(lanes, shared) {
  keepList(byId("shared-limits"), sharedViews, shared, ({ provider }) => provider, makeShared, updateShared);
  byId("lanes-empty").hidden = lanes.length > 0;
  keepList(byId("lanes"), laneViews, lanes, laneKey, makeLane, updateLane);
}

function makeShared({ provider }) {
  const who = make("p", "lane-note");
  const limits = make("div");
  const head = make("div", "lane-head", make("span", "lane-name", provider), make("span", "badge", "Shared"));
  return { element: make("li", "lane", head, who, limits), who, limits, views: new Map() };
}

function updateShared(view, shared) {
  const { lanes, other_lanes: others } = shared;
  const names = lanes
    .slice(0, NAMES_MAX)
    .map(({ tier, family }) => family + (tier === "realtime" ? "" : ` (${tier})`));
  const rest = others + lanes.length - names.length;
  if (rest > 0) names.push(`${compact(rest)} ${rest === 1 ? "other" : "others"}`);
  setText(view.who, `For all together: ${names.join(", ")}`);
  const places = { name: "in flight", used: shared.in_flight, limit: shared.in_flight_max };
  keepList(view.limits, view.views, [...shared.limits, places], ({ name }) => name, makeLimit, updateLimit);
}

/** `errors` maps codes to counts, the most frequent first. `open(code)` shows one. */
export function showErrors(errors, open) {
  const entries = Object.entries(errors);
  const most = Math.max(1, ...entries.map(([, times]) => times));
  byId("errors-empty").hidden = entries.length > 0;
  keepList(
    byId("errors"),
    errorViews,
    entries,
    ([code]) => code,
    ([code]) => {
      const { track, fills } = makeTrack("error-share");
      const number = make("span", "error-count");
      setAttribute(track, "aria-hidden", "true");
      const button = make("button", "link", make("code", "", code));
      button.type = "button";
      button.addEventListener("click", () => open(code));
      return { element: make("li", "error", button, track, number), number, fill: fills[0] };
    },
    (view, [, times]) => {
      setText(view.number, count(times));
      setShare(view.fill, times / most);
    },
  );
}

function laneKey(lane) {
  return `${lane.provider}:${lane.tier}:${lane.family}`;
}

function makeLane(lane) {
  const name = make("span", "lane-name", `${lane.provider}:${lane.family}`);
  const state = make("span", "badge");
  const waiting = make("span", "lane-waiting");
  const note = make("p", "lane-note");
  const limits = make("div");
  const head = make("div", "lane-head", name, state, waiting);
  if (lane.tier !== "realtime") name.append(` (${lane.tier})`);
  return { element: make("li", "lane", head, note, limits), state, waiting, note, limits, views: new Map() };
}

function updateLane(view, lane) {
  const [text, kind] = stateOf(lane);
  setText(view.state, text);
  setAttribute(view.state, "data-kind", kind);
  const answer = lane.answer_ms === null ? "" : `, answers in ${latency(lane.answer_ms)}`;
  setText(view.waiting, `${compact(lane.waiting)} waiting${answer}`);
  setText(view.note, noteOf(lane));
  view.note.hidden = lane.oversized === null;
  const places = { name: "in flight", used: lane.in_flight, limit: lane.in_flight_max };
  keepList(view.limits, view.views, [...lane.limits, places], ({ name }) => name, makeLimit, updateLimit);
}

function makeLimit({ name }) {
  const { track, fills } = makeTrack("");
  const use = make("span", "limit-use");
  const label = name === "in flight" ? "In flight" : `${name[0].toUpperCase()}${name.slice(1)}/min`;
  track.setAttribute("role", "meter");
  track.setAttribute("aria-label", label);
  track.setAttribute("aria-valuemin", "0");
  return {
    element: make("div", "limit", make("span", "limit-name", label), track, use),
    track,
    use,
    fill: fills[0],
  };
}

function updateLimit(view, { used, limit }) {
  const share = limit > 0 ? used / limit : 0;
  const text = `${compact(used)} of ${compact(limit)}`;
  setText(view.use, text);
  setShare(view.fill, share);
  setAttribute(view.track, "data-level", share >= HIGH ? "high" : "normal");
  setAttribute(view.track, "aria-valuemax", String(limit));
  setAttribute(view.track, "aria-valuenow", String(Math.min(used, limit)));
  setAttribute(view.track, "aria-valuetext", text);
}

function noteOf({ oversized }) {
  if (oversized === null) return "";
  const { tokens, limit, wait_ms: waitMs } = oversized;
  const size = `An item of ${compact(tokens)} tokens is larger than the limit of ${compact(limit)}`;
  return `${size}: it is sent by itself in ${duration(waitMs)}`;
}

function stateOf({ state, cooldown_ms: cooldownMs, oversized }) {
  if (state === "cooldown") return [`Cooling down, ${duration(cooldownMs)}`, "warn"];
  if (state === "outage") return ["Provider is down", "bad"];
  if (state === "paused") return ["Account stopped", "bad"];
  if (oversized !== null) return ["Waits", "warn"];
  return ["Open", "good"];
}
