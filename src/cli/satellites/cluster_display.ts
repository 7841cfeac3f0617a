/**
 * How a run of a cluster looks: on a terminal a line for each member that is drawn again as it changes; elsewhere a plain line
 * for each change. Always on stderr.
 *
 *   parse      running    0:07  12/40, 1 failed  2 retries
 */
import { styleText } from "node:util";
import type { ClusterView, MemberView } from "../../clusters/cluster.ts";
import { count, duration } from "../numbers.ts";

type Style = Parameters<typeof styleText>[0];

const STYLES: Readonly<Record<MemberView["status"], Style>> = {
  waiting: "dim",
  pending: "cyan",
  completed: "green",
  failed: "red",
  cancelled: "yellow",
  expired: "red",
  skipped: "dim",
};
/** Members at work or gone wrong are shown first when there is no room for all. */
const URGENCY: readonly MemberView["status"][] = [
  "pending",
  "failed",
  "expired",
  "cancelled",
  "waiting",
  "completed",
  "skipped",
];
/** Of a member with `each`, elsewhere than on a terminal. */
const PLAIN_PROGRESS_MS = 10_000;

/** Draws one run. */
export class ClusterDisplay {
  readonly #stream: NodeJS.WriteStream;
  readonly #sinceWallMs: number;
  /** Lines drawn on a terminal, to be drawn over. */
  #lines = 0;
  /** What was last said of a member, and when. */
  readonly #said = new Map<string, { readonly status: string; readonly wallMs: number }>();

  /** `sinceWallMs`: when this process began to run clusters. */
  constructor(stream: NodeJS.WriteStream, sinceWallMs: number) {
    this.#stream = stream;
    this.#sinceWallMs = sinceWallMs;
  }

  /** The last of a run shows every member, and leaves the lines standing. */
  show(cluster: ClusterView, wallMs: number, isLast = false): void {
    if (!this.#stream.isTTY) {
      for (const member of cluster.members) this.#say(cluster, member, wallMs);
      return;
    }
    // Lines that a terminal has scrolled away cannot be drawn over.
    const rows = Math.max(3, (this.#stream.rows ?? 24) - 2);
    this.#draw(linesOf(cluster, wallMs, isLast ? Number.POSITIVE_INFINITY : rows));
  }

  #draw(lines: readonly (readonly [text: string, style: Style])[]): void {
    const columns = Math.max(20, (this.#stream.columns ?? 80) - 1);
    const drawn = lines.map(([text, style]) => {
      const shown = text.length > columns ? `${text.slice(0, columns - 1)}…` : text;
      return `\x1b[K${styleText(style, shown, { stream: this.#stream })}\n`;
    });
    const up = this.#lines === 0 ? "" : `\x1b[${this.#lines}A`;
    this.#stream.write(`${up}\r${drawn.join("")}\x1b[J`);
    this.#lines = drawn.length;
  }

  #say(cluster: ClusterView, member: MemberView, wallMs: number): void {
    const said = this.#said.get(member.identifier);
    const isNews = said === undefined ? member.status !== "waiting" : said.status !== member.status;
    const isDue = member.counts !== undefined && wallMs - (said?.wallMs ?? 0) >= PLAIN_PROGRESS_MS;
    if (!isNews && !(isDue && member.status === "pending")) return;
    this.#said.set(member.identifier, { status: member.status, wallMs });
    const { startedWallMs = 0, finishedWallMs } = member;
    if (said === undefined && finishedWallMs !== undefined && startedWallMs >= this.#sinceWallMs) {
      // It began and ended between two looks: each change has its line all the same.
      const { counts: _, ...rest } = member;
      const begun: MemberView = {
        ...rest,
        status: "pending",
        finishedWallMs: startedWallMs,
        retries: 0,
        error: null,
      };
      this.#stream.write(`${memberLine(begun, widthOf(cluster), wallMs)}\n`);
    }
    this.#stream.write(`${memberLine(member, widthOf(cluster), wallMs)}\n`);
  }
}

/** All members when they fit, or those that matter most, in the order of the declaration. */
function linesOf(
  cluster: ClusterView,
  wallMs: number,
  linesMax: number,
): readonly (readonly [string, Style])[] {
  const { members } = cluster;
  const shown = members.length <= linesMax ? members : mostUrgent(members, linesMax - 1);
  const width = widthOf(cluster);
  const lines = shown.map((member) => [memberLine(member, width, wallMs), STYLES[member.status]] as const);
  const left = members.length - shown.length;
  return left === 0 ? lines : [...lines, [`and ${count(left)} more: ${tally(members)}`, "dim"]];
}

function mostUrgent(members: readonly MemberView[], number: number): readonly MemberView[] {
  const byUrgency = members.toSorted((one, two) => URGENCY.indexOf(one.status) - URGENCY.indexOf(two.status));
  const chosen = new Set(byUrgency.slice(0, number));
  return members.filter((member) => chosen.has(member));
}

/** `3 completed, 1 failed`, counts of 0 left out. */
export function tally(members: readonly MemberView[]): string {
  const parts = URGENCY.map((status) => {
    const found = members.filter((member) => member.status === status).length;
    return found === 0 ? "" : `${count(found)} ${word(status)}`;
  });
  return parts.filter((part) => part !== "").join(", ");
}

function memberLine(member: MemberView, width: number, wallMs: number): string {
  const { identifier, status, startedWallMs, finishedWallMs, retries, error } = member;
  const tookMs = startedWallMs === undefined ? undefined : (finishedWallMs ?? wallMs) - startedWallMs;
  const parts = [
    identifier.padEnd(width),
    word(status).padEnd(9),
    (tookMs === undefined ? "" : duration(tookMs)).padEnd(5),
    elements(member),
    retries === 0 ? "" : `${count(retries)} ${retries === 1 ? "retry" : "retries"}`,
    error === null ? "" : `${error.code}: ${error.message}`,
  ];
  return parts
    .filter((part) => part !== "")
    .join("  ")
    .trimEnd();
}

function word(status: MemberView["status"]): string {
  return status === "pending" ? "running" : status;
}

function elements({ counts }: MemberView): string {
  if (counts === undefined) return "";
  const { pending, completed, failed, cancelled, expired } = counts;
  const total = pending + completed + failed + cancelled + expired;
  const bad = failed + cancelled + expired;
  return `${count(total - pending)}/${count(total)}${bad === 0 ? "" : `, ${count(bad)} not completed`}`;
}

function widthOf({ members }: ClusterView): number {
  return Math.min(32, Math.max(...members.map(({ identifier }) => identifier.length)));
}
