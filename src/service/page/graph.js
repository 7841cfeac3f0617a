/**
 * The graph of a cluster: members in rows, each below all that it waits for, and lines between them.
 *
 *   row of a member = 0 when it waits for nothing, else 1 + the last row of those it waits for
 *
 * The rows wrap on a narrow screen, and a large graph scrolls in a frame of its own; the lines are drawn again whenever
 * something has moved.
 */
import { keepList, make, setAttribute, setText } from "./dom.js";
import { duration } from "./format.js";

const SVG = "http://www.w3.org/2000/svg";
/** From so many members on each is shown in one line. */
const MANY = 24;
const KINDS = {
  waiting: "idle",
  pending: "run",
  completed: "good",
  failed: "bad",
  expired: "bad",
  cancelled: "warn",
  skipped: "idle",
};

export class Graph {
  #rows = make("ol", "graph-rows");
  #lines = document.createElementNS(SVG, "svg");
  #views = new Map();
  #paths = new Map();
  #members = [];
  #graph;

  constructor() {
    setAttribute(this.#lines, "aria-hidden", "true");
    this.#lines.classList.add("graph-lines");
    this.#graph = make("div", "graph", this.#lines, this.#rows);
    this.element = make("div", "graph-frame", this.#graph);
    this.element.role = "group";
    this.element.ariaLabel = "Members";
    new ResizeObserver(() => this.#draw()).observe(this.#rows);
  }

  /** Members of a snapshot that was made at `nowMs`. */
  show(members, nowMs) {
    const rows = rowsOf(members);
    this.#members = members;
    setAttribute(this.#graph, "data-size", members.length < MANY ? "few" : "many");
    while (this.#rows.children.length > rows.length) this.#rows.lastChild.remove();
    while (this.#rows.children.length < rows.length)
      this.#rows.append(make("li", "", make("ul", "graph-row")));
    rows.forEach((row, index) => {
      const views = this.#viewsOf(index);
      keepList(
        this.#rows.children[index].firstChild,
        views,
        row,
        ({ identifier }) => identifier,
        makeNode,
        (view, member) => updateNode(view, member, nowMs),
      );
    });
    this.#draw();
  }

  #viewsOf(row) {
    if (!this.#views.has(row)) this.#views.set(row, new Map());
    return this.#views.get(row);
  }

  #draw() {
    const frame = this.#graph.getBoundingClientRect();
    if (frame.width === 0) return; // not shown
    this.element.tabIndex = this.element.scrollHeight > this.element.clientHeight + 1 ? 0 : -1; // scrolled by keys
    setAttribute(this.#lines, "width", String(frame.width));
    setAttribute(this.#lines, "height", String(frame.height));
    const boxes = new Map();
    for (const views of this.#views.values())
      for (const [identifier, { element }] of views) boxes.set(identifier, element.getBoundingClientRect());
    const seen = new Set();
    for (const { identifier, needs, status } of this.#members) {
      for (const need of needs) {
        const [from, to] = [boxes.get(need), boxes.get(identifier)];
        if (from === undefined || to === undefined) continue;
        const key = `${need} ${identifier}`;
        seen.add(key);
        const path = this.#path(key);
        setAttribute(path, "d", curve(from, to, frame));
        setAttribute(path, "data-kind", status === "waiting" ? "idle" : "done");
      }
    }
    for (const [key, path] of this.#paths) {
      if (seen.has(key)) continue;
      path.remove();
      this.#paths.delete(key);
    }
  }

  #path(key) {
    let path = this.#paths.get(key);
    if (path === undefined) {
      path = document.createElementNS(SVG, "path");
      this.#lines.append(path);
      this.#paths.set(key, path);
    }
    return path;
  }
}

/** Members by row. Those that wait for each other, which the service refuses, would share the last row. */
function rowsOf(members) {
  const rowOf = new Map();
  let open = members;
  while (open.length > 0) {
    const ready = open.filter(({ needs }) =>
      needs.every((need) => rowOf.has(need) || !members.some(({ identifier }) => identifier === need)),
    );
    const taken = ready.length > 0 ? ready : open;
    for (const { identifier, needs } of taken)
      rowOf.set(identifier, Math.max(-1, ...needs.map((need) => rowOf.get(need) ?? -1)) + 1);
    open = open.filter((member) => !taken.includes(member));
  }
  const rows = [];
  for (const member of members) {
    const row = rowOf.get(member.identifier);
    rows[row] ??= [];
    rows[row].push(member);
  }
  return rows.filter((row) => row !== undefined);
}

function makeNode(member) {
  const view = {
    name: make("span", "node-name", member.name),
    status: make("span", "badge"),
    time: make("span", "sub"),
    more: make("span", "sub"),
    needs: make("span", "unseen"),
  };
  view.element = make(
    "li",
    "node",
    make("div", "node-head", view.name, view.status),
    make("div", "node-notes", view.time, view.more),
    view.needs,
  );
  view.element.title = `${member.name} (${member.identifier}): ${member.uses}`;
  if (member.needs.length > 0) setText(view.needs, `waits for ${member.needs.join(", ")}`);
  return view;
}

function updateNode(view, member, nowMs) {
  setText(view.status, member.status);
  setAttribute(view.status, "data-kind", KINDS[member.status] ?? "idle");
  setAttribute(view.element, "data-kind", KINDS[member.status] ?? "idle");
  setText(view.time, timeOf(member, nowMs));
  setText(view.more, notesOf(member).join(" \u00b7 "));
}

function timeOf({ started_at: startedAt, finished_at: finishedAt }, nowMs) {
  if (startedAt === null) return "";
  const ms = Math.max(0, (finishedAt ?? nowMs) - startedAt);
  return ms < 1_000 ? `${Math.round(ms)} ms` : duration(ms);
}

function notesOf({ status, retries, counts, error_code: errorCode }) {
  const notes = [];
  if (counts !== null) {
    const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
    notes.push(`${total - counts.pending} of ${total}`);
  }
  if (retries > 0) notes.push(`${retries} ${retries === 1 ? "retry" : "retries"}`);
  if (errorCode !== null && errorCode !== status) notes.push(errorCode);
  return notes;
}

/** From the lower edge of one box to the upper edge of another, within a frame. */
function curve(from, to, frame) {
  const [x1, y1] = [from.left + from.width / 2 - frame.left, from.bottom - frame.top];
  const [x2, y2] = [to.left + to.width / 2 - frame.left, to.top - frame.top];
  const bend = Math.max(8, (y2 - y1) / 2);
  return `M${x1.toFixed(1)} ${y1.toFixed(1)} C${x1.toFixed(1)} ${(y1 + bend).toFixed(1)} ${x2.toFixed(1)} ${(y2 - bend).toFixed(1)} ${x2.toFixed(1)} ${y2.toFixed(1)}`;
}
