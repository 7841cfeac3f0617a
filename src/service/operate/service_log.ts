/**
 * What the service writes to its log besides requests: faults, notices, holds, lines of satellites. Without a log, faults are
 * still passed on.
 *
 *   made -> watching an app (faults and satellites are written from then on) -> following holds -> closed
 */
import type { Clock } from "../../clock.ts";
import type { Hold } from "../../engine/items/holds.ts";
import type { SatelliteLogLine } from "../../satellites/executions/attempt_run.ts";
import type { FastifyInstance } from "../http/fastify.ts";
import { type LogOptions, logFault, logRequests, logSatellite } from "../http/log.ts";
import type { ServerOptions } from "../http/server.ts";
import { HoldLog, type HoldLogOptions } from "./hold_log.ts";

export interface ServiceLogOptions {
  readonly clock: Clock;
  /** Where log lines go. Absent: nothing is logged. */
  readonly log?: Omit<LogOptions, "clock"> | undefined;
  /** Receives faults; the log has them without their text. */
  readonly onFault?: ServerOptions["onFault"] | undefined;
}

/** One for a service. */
export class LogWriter {
  readonly #options: ServiceLogOptions;
  #app: FastifyInstance | undefined;
  #holds: HoldLog | undefined;

  constructor(options: ServiceLogOptions) {
    this.#options = options;
  }

  /** Its requests are logged as well. */
  watch(app: FastifyInstance): void {
    this.#app = app;
    if (this.#options.log !== undefined) logRequests(app);
  }

  /** Writes when a hold begins and ends. */
  follow(holds: HoldLogOptions["holds"]): void {
    const { clock } = this.#options;
    this.#holds = new HoldLog({ clock, holds, tell: (event, hold) => this.#hold(event, hold) });
  }

  /** A fault of perigee; `place` is the id of the request, or where it was. */
  fault(error: unknown, place: string): void {
    if (this.#app !== undefined) logFault(this.#app, error, place);
    this.#options.onFault?.(error, place);
  }

  /** A message for the operator: a fixed sentence, which may contain ids and paths of the data folder. */
  notice(message: string): void {
    this.#warn("notice", { message });
  }

  /** A line of a satellite or of its runtime: the log has what it was about, and no text. */
  satellite(line: SatelliteLogLine): void {
    if (this.#app !== undefined) logSatellite(this.#app, line);
  }

  close(): void {
    this.#holds?.close();
  }

  #hold(event: "held" | "released", { reason, provider, model, items, since }: Hold): void {
    this.#warn(event, { reason, provider, model, items, since });
  }

  #warn(event: string, fields: object): void {
    const { log, clock } = this.#options;
    const line = { level: "warn", time: new Date(clock.wallMs()).toISOString(), event, ...fields };
    log?.write(`${JSON.stringify(line)}\n`);
  }
}
