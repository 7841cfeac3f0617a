/**
 * What the service reports about itself: metrics, its log, traces, the operator page. Made before the engine, whose observer it
 * is, and joined with the server when that is made.
 *
 *   made -> engine opened with its observer -> `join`ed with what the engine runs -> server made with `serverOptions`
 *        -> `register` (routes) -> closed
 */

import type { Clusters } from "../../clusters/cluster.ts";
import type { Engine } from "../../engine/engine.ts";
import type { AttemptReport, EngineObserver, SettledReport } from "../../engine/journal/observer.ts";
import { publicHolds } from "../../engine/lanes/run_holds.ts";
import type { Executions } from "../../satellites/sdk/execution.ts";
import type { RecordStore } from "../../store/records.ts";
import type { Files } from "../../tasks/files/files.ts";
import type { OpenedTasks } from "../../tasks/open_tasks.ts";
import type { FastifyInstance } from "../http/fastify.ts";
import type { KeyVerifier } from "../http/key_verifier.ts";
import { logSettings } from "../http/log.ts";
import type { ServerOptions } from "../http/server.ts";
import { Activity } from "./activity.ts";
import type { FleetState } from "./fleet_state.ts";
import { History } from "./history.ts";
import { Metrics } from "./metrics.ts";
import {
  countRequests,
  type MetricsPort,
  openMetricsPort,
  type RenderedMetrics,
  registerMetricsRoute,
} from "./metrics_routes.ts";
import { registerOperatorRoutes } from "./operator.ts";
import { OperatorFeed } from "./operator_feed.ts";
import { registerPageRoutes } from "./page.ts";
import { SatelliteFeed } from "./satellite_feed.ts";
import { LogWriter, type ServiceLogOptions } from "./service_log.ts";
import { TaskFeed } from "./task_feed.ts";
import { TaskNames } from "./task_names.ts";
import { Telemetry } from "./telemetry.ts";
import { WaitingCallers } from "./waiting_callers.ts";

export interface ObservationOptions extends ServiceLogOptions {
  /** Metrics have a separate port, and the service's own port does not serve them. */
  readonly metricsPort?: number | undefined;
  /** Receives every event that this observer receives. */
  readonly observer?: EngineObserver | undefined;
}

interface ObservedSatellites {
  readonly executions: Pick<Executions, "list" | "onFinished" | "counts">;
  readonly clusters: Pick<Clusters, "list" | "cluster">;
}

/** What the metrics and the page read. */
export interface ObservedService {
  readonly tasks: Pick<OpenedTasks, "list" | "task" | "objects" | "onFinished" | "openCounts">;
  readonly files: Pick<Files, "file">;
  readonly store: Pick<RecordStore, "change" | "record" | "records">;
  readonly engine: Pick<Engine, "lanes" | "holds" | "batches">;
  readonly verifier: Pick<KeyVerifier, "verify">;
  readonly satellites?: ObservedSatellites | undefined;
  /** The fleet that it is part of. */
  readonly fleet?: (() => FleetState) | undefined;
}

/** One for a service; methods in the order above. */
export class Observation {
  readonly observer: EngineObserver;
  /** For `createServer`. */
  readonly serverOptions: Pick<ServerOptions, "log" | "watch" | "onFault">;
  readonly callers: WaitingCallers;
  readonly log: LogWriter;
  readonly #options: ObservationOptions;
  /** Sums of this process, and those of a day. */
  readonly #sums: { readonly activity: Activity; readonly history: History };
  readonly #metrics: Metrics;
  readonly #telemetry = new Telemetry();
  #service: ObservedService | undefined;
  #port: MetricsPort | undefined;

  constructor(options: ObservationOptions) {
    const { clock, observer, log } = options;
    this.#options = options;
    this.log = new LogWriter(options);
    this.serverOptions = {
      log: log === undefined ? undefined : logSettings({ ...log, clock }),
      watch: (app) => this.#watch(app),
      onFault: (error, requestId) => this.log.fault(error, requestId),
    };
    this.callers = new WaitingCallers(clock);
    const activity = new Activity(clock);
    const history = new History({ clock, store: () => this.#service?.store });
    this.#sums = { activity, history };
    this.#metrics = new Metrics({
      activity,
      lanes: () => this.#service?.engine.lanes() ?? [],
      open: () => this.#service?.tasks.openCounts() ?? { tasks: 0, objects: 0 },
      holds: () => publicHolds(this.#service?.engine.holds() ?? []),
      batches: () => this.#service?.engine.batches,
      executions: () => this.#service?.satellites?.executions.counts() ?? { queued: 0, running: 0 },
    });
    const [metrics, telemetry] = [this.#metrics, this.#telemetry];
    this.observer = {
      attempted: (report: AttemptReport) => {
        activity.attempted(report);
        history.attempted(report);
        telemetry.attempted(report);
        observer?.attempted(report);
      },
      settled: (report: SettledReport) => {
        activity.settled(report);
        history.settled(report);
        observer?.settled(report);
      },
      committed: (durationMs: number) => {
        metrics.committed(durationMs);
        observer?.committed(durationMs);
      },
    };
  }

  join(service: ObservedService): void {
    this.#service = service;
    this.log.follow(() => publicHolds(service.engine.holds()));
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
    // A worker of a fleet shows the metrics of all its services itself.
    if (metricsPort === undefined && service.fleet === undefined) registerMetricsRoute(app, this.#metrics);
    const { satellites, tasks, files } = service;
    const names = new TaskNames({ clock, tasks, files });
    const feed = new OperatorFeed({
      clock,
      tasks: new TaskFeed({ clock, tasks, names }),
      ...this.#sums,
      lanes: () => service.engine.lanes(),
      batches: () => service.engine.batches.list(),
      fleet: service.fleet,
      satellites:
        satellites === undefined ? undefined : new SatelliteFeed(satellites.executions, satellites.clusters),
    });
    registerPageRoutes(app);
    registerOperatorRoutes(app, {
      feed,
      isAccepted: (authorization) => service.verifier.verify(authorization, "v0") !== undefined,
    });
  }

  /** The metrics of this service. */
  render(): Promise<RenderedMetrics> {
    return this.#metrics.render();
  }

  /** Opens the port of the metrics, where they have one. Rejects with the system's error when it cannot listen. */
  async listen(host: string): Promise<void> {
    const { metricsPort: port } = this.#options;
    if (port !== undefined) this.#port ??= await openMetricsPort(this.#metrics, { host, port });
  }

  async close(): Promise<void> {
    this.log.close();
    await this.#sums.history.close();
    await this.#port?.close();
  }

  #watch(app: FastifyInstance): void {
    this.callers.watch(app);
    countRequests(app, this.#metrics);
    this.log.watch(app);
    this.#telemetry.watch(app);
  }
}
