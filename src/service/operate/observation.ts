/**
 * What the service reports about itself: metrics, its log, traces, the operator page. Made before the engine, whose observer it
 * is, and joined with the server when that is made.
 *
 *   made -> engine opened with its observer -> `join`ed with what the engine runs -> server made with `serverOptions`
 *        -> `register` (routes) -> closed
 */

import type { Clock } from "../../clock.ts";
import type { Clusters } from "../../clusters/cluster.ts";
import type { Engine } from "../../engine/engine.ts";
import type { Hold } from "../../engine/items/holds.ts";
import type { AttemptReport, EngineObserver, SettledReport } from "../../engine/journal/observer.ts";
import { publicHolds } from "../../engine/lanes/run_holds.ts";
import type { SatelliteLogLine } from "../../satellites/executions/attempt_run.ts";
import type { Executions } from "../../satellites/sdk/execution.ts";
import type { OpenedTasks } from "../../tasks/task_desk.ts";
import type { FastifyInstance } from "../http/fastify.ts";
import type { KeyVerifier } from "../http/key_verifier.ts";
import { type LogOptions, logFault, logRequests, logSatellite, logSettings } from "../http/log.ts";
import type { ServerOptions } from "../http/server.ts";
import { Activity } from "./activity.ts";
import { HoldLog } from "./hold_log.ts";
import { Metrics } from "./metrics.ts";
import { countRequests, type MetricsPort, openMetricsPort, registerMetricsRoute } from "./metrics_routes.ts";
import { registerOperatorRoutes } from "./operator.ts";
import { OperatorFeed } from "./operator_feed.ts";
import { registerPageRoutes } from "./page.ts";
import { SatelliteFeed } from "./satellite_feed.ts";
import { Telemetry } from "./telemetry.ts";
import { WaitingCallers } from "./waiting_callers.ts";

export interface ObservationOptions {
  readonly clock: Clock;
  /** Where log lines go. Absent: there is no log. */
  readonly log?: Omit<LogOptions, "clock"> | undefined;
  /** Metrics have a separate port, and the service's own port does not serve them. */
  readonly metricsPort?: number | undefined;
  /** Receives every event that this observer receives. */
  readonly observer?: EngineObserver | undefined;
  /** Receives faults; the log has them without their text. */
  readonly onFault?: ServerOptions["onFault"] | undefined;
}

interface ObservedSatellites {
  readonly executions: Pick<Executions, "list" | "onFinished" | "counts">;
  readonly clusters: Pick<Clusters, "list" | "cluster">;
}

/** What the metrics and the page read. */
export interface ObservedService {
  readonly tasks: Pick<OpenedTasks, "list" | "task" | "onFinished" | "openCounts">;
  readonly engine: Pick<Engine, "lanes" | "holds">;
  readonly verifier: Pick<KeyVerifier, "verify">;
  readonly satellites?: ObservedSatellites | undefined;
}

/** One for a service; methods in the order above. */
export class Observation {
  readonly observer: EngineObserver;
  /** For `createServer`. */
  readonly serverOptions: Pick<ServerOptions, "log" | "watch" | "onFault">;
  readonly callers: WaitingCallers;
  readonly #options: ObservationOptions;
  readonly #activity: Activity;
  readonly #metrics: Metrics;
  readonly #telemetry = new Telemetry();
  #service: ObservedService | undefined;
  #app: FastifyInstance | undefined;
  #port: MetricsPort | undefined;
  #holdLog: HoldLog | undefined;

  constructor(options: ObservationOptions) {
    const { clock, observer, log } = options;
    this.#options = options;
    this.serverOptions = {
      log: log === undefined ? undefined : logSettings({ ...log, clock }),
      watch: (app) => this.#watch(app),
      onFault: (error, requestId) => this.onFault(error, requestId),
    };
    this.callers = new WaitingCallers(clock);
    this.#activity = new Activity(clock);
    this.#metrics = new Metrics({
      activity: this.#activity,
      lanes: () => this.#service?.engine.lanes() ?? [],
      open: () => this.#service?.tasks.openCounts() ?? { tasks: 0, objects: 0 },
      holds: () => publicHolds(this.#service?.engine.holds() ?? []),
      executions: () => this.#service?.satellites?.executions.counts() ?? { queued: 0, running: 0 },
    });
    const [activity, metrics, telemetry] = [this.#activity, this.#metrics, this.#telemetry];
    this.observer = {
      attempted: (report: AttemptReport) => {
        activity.attempted(report);
        telemetry.attempted(report);
        observer?.attempted(report);
      },
      settled: (report: SettledReport) => {
        activity.settled(report);
        observer?.settled(report);
      },
      committed: (durationMs: number) => {
        metrics.committed(durationMs);
        observer?.committed(durationMs);
      },
    };
  }

  /** A fault of perigee; `place` is the id of the request, or where it was. */
  onFault(error: unknown, place: string): void {
    if (this.#app !== undefined) logFault(this.#app, error, place);
    this.#options.onFault?.(error, place);
  }

  /** A message for the operator: a fixed sentence, which may contain ids and paths of the data folder. */
  onNotice(message: string): void {
    const { log, clock } = this.#options;
    const line = { level: "warn", time: new Date(clock.wallMs()).toISOString(), event: "notice", message };
    log?.write(`${JSON.stringify(line)}\n`);
  }

  #onHold(event: "held" | "released", { reason, provider, model, items, since }: Hold): void {
    const { log, clock } = this.#options;
    const what = { reason, provider, model, items, since };
    const line = { level: "warn", time: new Date(clock.wallMs()).toISOString(), event, ...what };
    log?.write(`${JSON.stringify(line)}\n`);
  }

  /** A satellite, or the runtime about it, said something: the log has what it was about, and no text. */
  onSatelliteLog(line: SatelliteLogLine): void {
    if (this.#app !== undefined) logSatellite(this.#app, line);
  }

  join(service: ObservedService): void {
    this.#service = service;
    this.#holdLog = new HoldLog({
      clock: this.#options.clock,
      holds: () => publicHolds(service.engine.holds()),
      tell: (event, hold) => this.#onHold(event, hold),
    });
    service.satellites?.executions.onFinished((execution) => this.#metrics.executed(execution));
    service.tasks.onFinished(async ({ kind, project, taskId }) => {
      this.#metrics.finished(kind);
      if (!this.#telemetry.isTracing) return;
      const task = await service.tasks.task(project, taskId).catch(() => undefined); // it may be removed by now
      if (task !== undefined) this.#telemetry.finished(task);
    });
  }

  register(app: FastifyInstance): void {
    const [service, { clock, metricsPort }] = [this.#service, this.#options];
    if (service === undefined) throw new Error("nothing to observe was joined");
    if (metricsPort === undefined) registerMetricsRoute(app, this.#metrics);
    const { satellites } = service;
    const feed = new OperatorFeed({
      clock,
      tasks: service.tasks,
      activity: this.#activity,
      lanes: () => service.engine.lanes(),
      satellites:
        satellites === undefined ? undefined : new SatelliteFeed(satellites.executions, satellites.clusters),
    });
    registerPageRoutes(app);
    registerOperatorRoutes(app, {
      feed,
      isAccepted: (authorization) => service.verifier.verify(authorization, "v0") !== undefined,
    });
  }

  /** Opens the port of the metrics, where they have one. Rejects with the system's error when it cannot listen. */
  async listen(host: string): Promise<void> {
    const { metricsPort: port } = this.#options;
    if (port !== undefined) this.#port ??= await openMetricsPort(this.#metrics, { host, port });
  }

  async close(): Promise<void> {
    this.#holdLog?.close();
    await this.#port?.close();
  }

  #watch(app: FastifyInstance): void {
    this.#app = app;
    this.callers.watch(app);
    countRequests(app, this.#metrics);
    if (this.#options.log !== undefined) logRequests(app);
    this.#telemetry.watch(app);
  }
}
