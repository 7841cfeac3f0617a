/**
 * The audit log of a fleet, in `perigee_audit`: the lines of `audit_line.ts`, one chain for each start of a process.
 *
 *   open -> closed
 *
 * Events are gathered for 200 ms and written together, which is done again as long as the database is away. A gap in `n`, or a line that does
 * not follow from the one before it, shows what was removed or changed.
 *
 * Limits: 10,000 events wait at most; those beyond are counted, and the count is written. Kept for 13 months.
 */
import type { Clock, Timer } from "../../clock.ts";
import type { PgQuery } from "../postgres/pg_session.ts";
import { type AuditEvent, auditLine, CHAIN_START, type ChainEnd, type TimedEvent } from "./audit_line.ts";
import { type Audit, FailedLogins } from "./audit_log.ts";

const GROUP_MS = 200;
const GROUP_EVENTS_MAX = 1_000;
const WAITING_EVENTS_MAX = 10_000;
/** 13 months of 31 days. */
const KEPT_MS = 13 * 31 * 86_400_000;

export class PgAudit implements Audit {
  readonly #query: PgQuery;
  readonly #clock: Clock;
  readonly #writer: string;
  #waiting: TimedEvent[] = [];
  #lost = 0;
  #end: ChainEnd = CHAIN_START;
  readonly #failedLogins = new FailedLogins();
  #timer: Timer | undefined;
  /** The last group. */
  #written: Promise<void> = Promise.resolve();
  #isClosed = false;

  /** `writer` names the chain: one for each start. */
  constructor(query: PgQuery, clock: Clock, writer: string) {
    this.#query = query;
    this.#clock = clock;
    this.#writer = writer;
  }

  note(event: AuditEvent): void {
    if (event.kind === "login.failed") this.#failedLogins.add(this.#clock, () => this.#pushCount());
    else this.#push({ ...event, wallMs: this.#clock.wallMs() });
  }

  /** Resolves when all that was noted is committed. Rejects when the database cannot take it. */
  flush(): Promise<void> {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#written = this.#written.catch(() => undefined).then(() => this.#writeAll());
    return this.#written;
  }

  /** Removes what is older than 13 months. */
  async sweep(): Promise<void> {
    await this.#query("DELETE FROM perigee_audit WHERE wall_ms < $1", this.#clock.wallMs() - KEPT_MS);
  }

  /** Writes what is left. */
  async close(): Promise<void> {
    this.#pushCount();
    this.#isClosed = true;
    await this.flush();
  }

  #push(event: TimedEvent): void {
    if (this.#isClosed) return;
    if (this.#waiting.length >= WAITING_EVENTS_MAX) this.#lost += 1;
    else this.#waiting.push(event);
    this.#timer ??= this.#clock.timer(GROUP_MS, () => void this.flush().catch(() => undefined), {
      keepsAlive: false,
    });
  }

  #pushCount(): void {
    const count = this.#failedLogins.take();
    if (count > 0) this.#push({ kind: "login.failed", count, wallMs: this.#clock.wallMs() });
  }

  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0 || this.#lost > 0) {
      const events = this.#waiting.slice(0, GROUP_EVENTS_MAX);
      const { length: count } = events;
      const lost = this.#lost;
      if (lost > 0) events.push({ kind: "events.lost", count: lost, wallMs: this.#clock.wallMs() });
      let end = this.#end;
      const lines = events.map((event) => {
        const line = auditLine(event, end);
        end = line.end;
        return line.text;
      });
      // One text, which the server cuts: lines have no line end in them, and `pg` would quote each element of an array.
      await this.#query(
        `INSERT INTO perigee_audit (writer, n, wall_ms, line)
         SELECT $1, $2::bigint + place, wall_ms, line
         FROM unnest($3::bigint[], string_to_array($4, E'\\n')) WITH ORDINALITY AS l (wall_ms, line, place)
         ON CONFLICT DO NOTHING`,
        ...[this.#writer, this.#end.n, events.map(({ wallMs }) => wallMs), lines.join("\n")],
      );
      this.#end = end;
      this.#waiting.splice(0, count);
      this.#lost -= lost;
    }
  }
}
