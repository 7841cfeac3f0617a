/**
 * The service on one engine and one data folder.
 *
 *   opening (folder locked, open tasks continued) -> open -> draining -> closed
 *   open -> stopped (sends and begins nothing, answers and accepts) -> drained (nothing in flight) -> draining -> closed
 *
 * The second way is that of a service whose work another process continues at once.
 */
import { readFileSync } from "node:fs";
import { systemClock } from "../clock.ts";
import type { OpenedSatellites } from "../clusters/open.ts";
import { systemDisk } from "../disk.ts";
import type { RequestBounds } from "../engine/config/config_options.ts";
import { eventSecrets } from "../engine/config/event_secrets.ts";
import { drained } from "../engine/draining.ts";
import { type EnginePlace, type OpenedEngine, openEngine } from "../engine/engine.ts";
import type { PerigeeError } from "../errors.ts";
import type { OtherSatellites } from "../satellites/kinds/satellite_records.ts";
import { type Audit, NO_LOCK, openAuditLog } from "../store/audit/audit_log.ts";
import { openKeyStore } from "../store/keys/key_store.ts";
import type { ServiceContext } from "./context.ts";
import { createTransfers } from "./files/transfers.ts";
import { slaMinutesOf } from "./front/call_terms.ts";
import { ServedModels } from "./front/served_models.ts";
import { Idempotency } from "./http/idempotency.ts";
import { createKeyVerifier, type KeyVerifier } from "./http/key_verifier.ts";
import { PublicUrl } from "./http/public_url.ts";
import type { ServerLimits } from "./http/server.ts";
import { noteConfigChanges, type Settings } from "./operate/config_changes.ts";
import type { FleetState } from "./operate/fleet_state.ts";
import type { RenderedMetrics } from "./operate/metrics_routes.ts";
import { Observation } from "./operate/observation.ts";
import { createHttpService, type HttpService } from "./service.ts";
import { checkServiceOptions, type PerigeeServiceOptions } from "./service_options.ts";
import { openStack, type Stack } from "./stack.ts";

/** The service. `listen`, `handler` and `plugin` may be used together. */
export interface PerigeeService extends Pick<HttpService, "listen" | "handler" | "plugin" | "close"> {
  /** Satellites and clusters, for the process that the service is part of. */
  readonly satellites: Omit<OpenedSatellites, "close">;
  /** Resolves with the error when the engine cannot go on; the process should be started again then. */
  readonly failed: Promise<PerigeeError>;
}

/** With less free space the service is not ready: a commit may need as much. */
const READY_BYTES_MIN = 1024 * 1024;
const DISK_FULL = "no space is left on the disk of the data folder; free some";
const STORE_FAILED =
  "the store in the data folder failed, as the log says; check its disk and start the service again";

/** How a service fits into what opens it. */
export interface ServicePlace extends Pick<EnginePlace, "measurerFrom" | "learntRows"> {
  /** Receives what is audited, instead of files in the data folder. */
  readonly audit?: Audit;
  /** The fleet that it is part of. */
  readonly fleet?: (() => FleetState) | undefined;
  readonly otherSatellites?: OtherSatellites | undefined;
  /** Receives the way to its metrics, which the process shows itself. */
  readonly onMetrics?: (render: () => Promise<RenderedMetrics>) => void;
  /** Starts other work on its engine; `stop` is called before the engine closes, which waits for its runs. */
  readonly beside?: ((opened: OpenedEngine) => WorkBeside) | undefined;
  /** Receives the way to hand its work over. */
  readonly onHandover?: (handover: Handover) => void;
}

/** Other work on the engine of a service. */
interface WorkBeside {
  /** Begins nothing more; what is under way goes on. May be called twice. */
  pause(): void;
  /** Begins nothing more, and stops what is under way, without waiting for it. With or without `pause` before; may be called twice. */
  stop(): void;
}

/**
 * How a service ends its work for another process, which continues it: `drained`, `release`, `close` of the service. The first two may be
 * left out. After `close` they change nothing.
 */
export interface Handover {
  /**
   * Sends and begins nothing more from now on, and resolves when nothing is in flight, or when the signal fires. Requests of clients are answered
   * meanwhile, and what is accepted is for the next process. May be called twice, also at once: each call has its own signal. Never rejects.
   */
  drained(signal: AbortSignal): Promise<void>;
  /**
   * Clients stop waiting: each gets its task as it is, now and from now on. Sends and begins nothing more either, if `drained` was not called,
   * such as for a store that was lost. Nothing in flight is cut. May be called twice.
   */
  release(): void;
}

/** Opens the data folder, continues what is open, and is ready. Throws as `createEngine`. */
export async function openPerigeeService(
  options: PerigeeServiceOptions,
  place: ServicePlace = {},
): Promise<PerigeeService> {
  checkServiceOptions(options);
  const {
    verifier,
    serverLimits: _serverLimits,
    isBehindProxy: _isBehindProxy,
    publicUrl: _publicUrl,
    defaultSla: _defaultSla,
    onFault: _onFault,
    log: _log,
    metricsPort: _metricsPort,
    satellites: _satellites,
    ...engineOptions
  } = options;
  await (options.disk ?? systemDisk).makePrivateFolder(options.dataDir);
  const observation = new Observation({ ...options, clock: options.clock ?? systemClock });
  place.onMetrics?.(() => observation.render());
  const onNotice = (message: string): void => {
    observation.log.notice(message);
    options.onNotice?.(message);
  };
  const seen = { ...engineOptions, observer: observation.observer, onNotice };
  const callsPerTurn = (): number | undefined => observation.callers.callsPerTurn;
  const { measurerFrom, learntRows } = place;
  const threads = measurerFrom === undefined ? {} : { measurerFrom };
  const enginePlace = { ...threads, learntRows, callsPerTurn, diskWaitMs: Number.POSITIVE_INFINITY };
  const opened = await openEngine(seen, enginePlace); // first: it locks the folder
  const { clock, disk, store } = opened.core.storage;
  const { dataDir } = options;
  const closers: (() => unknown)[] = [() => opened.engine.close()];
  const closeAll = async (): Promise<void> => {
    for (const close of closers.splice(0).reverse()) await close();
  };
  try {
    const onFailure = (error: unknown): void => observation.log.fault(error, "audit");
    // A lock of this machine is for programs that share its folder; another disk has one owner.
    const lock = options.disk === undefined ? {} : { lock: NO_LOCK };
    const ownAudit = async (): Promise<Audit> => {
      const log = await openAuditLog({ dataDir, clock, disk, onFailure, ...lock });
      closers.push(() => log.close().catch(onFailure));
      return log;
    };
    const audit = place.audit ?? (await ownAudit());
    await noteConfigChanges(store, clock, audit, settingsOf(options), options.env ?? process.env);
    if (verifier !== undefined) {
      const { fleet, otherSatellites } = place;
      const access = { verifier, audit, observation, fleet, otherSatellites };
      return besides(await open(opened, options, access, closeAll), place, place.beside?.(opened));
    }
    const keys = await openKeyStore({ dataDir, clock });
    closers.push(() => keys.close());
    const access = { verifier: createKeyVerifier(keys), audit, observation };
    return besides(await open(opened, options, access, closeAll), place);
  } catch (error) {
    await closeAll();
    throw error;
  }
}

/** The other work stops first. */
function besides(
  { handover, ...service }: HandedOver,
  { onHandover }: ServicePlace,
  other?: WorkBeside,
): PerigeeService {
  onHandover?.({
    ...handover,
    drained: (signal) => {
      other?.pause();
      return handover.drained(signal);
    },
  });
  const close = (): Promise<void> => {
    other?.stop();
    return service.close();
  };
  return { ...service, close };
}

/** What an operator sets; not the seams. */
function settingsOf(options: PerigeeServiceOptions): Settings {
  const {
    dataDir,
    env,
    clock,
    transport,
    disk,
    store,
    measurer,
    limitPool,
    capPool,
    observer,
    onNotice,
    verifier,
    onFault,
    log,
    satellites,
    ...settings
  } = options;
  const { trusted: _code, onLog: _onLog, ...models } = satellites ?? {};
  return { ...settings, satellites: satellites === undefined ? undefined : models };
}

interface Access extends Pick<ServicePlace, "fleet" | "otherSatellites"> {
  readonly verifier: KeyVerifier;
  readonly audit: Audit;
  readonly observation: Observation;
}

interface HandedOver extends PerigeeService {
  readonly handover: Handover;
}

async function open(
  opened: OpenedEngine,
  options: PerigeeServiceOptions,
  access: Access,
  closeRest: () => Promise<void>,
): Promise<HandedOver> {
  const { dataDir, serverLimits, isBehindProxy } = options;
  const { observation, verifier } = access;
  const { engine, core } = opened;
  const { clock, disk, store, room } = core.storage;
  const onFault = (error: unknown): void => observation.log.fault(error, "background");
  const stack = await openStack(opened, {
    ...{ ...options, verifier, audit: access.audit, onFault, otherSatellites: access.otherSatellites },
    onSatelliteLog: (line) => observation.log.satellite(line),
  });
  const { tasks, files, satellites, webhooks, spending } = stack;
  observation.join({ tasks, files, store, verifier, engine, satellites, fleet: access.fleet });
  const publicUrl = new PublicUrl(options.publicUrl);
  let failure: PerigeeError | undefined;
  const failed = new Promise<PerigeeError>((resolve) => {
    core.recording.failures.add((error) => {
      failure ??= error;
      resolve(error);
    });
  });
  const service = await createHttpService({
    context: {
      clock,
      disk,
      store,
      engine,
      tasks,
      files,
      satellites,
      webhooks,
      idempotency: new Idempotency({ clock, store }),
      transfers: createTransfers((error, requestId) => observation.log.fault(error, requestId)),
      ...{ dataDir, eventSecrets: secretsOf(opened, options) },
      ...{ requestBounds: options.requests, front: frontTerms(opened, options), cache: core.config.cache },
      ...{ publicUrl: () => publicUrl.text, isStopping: () => ending.isStopped() },
    },
    onMounted: (request) => publicUrl.came(request),
    spending,
    ...access,
    version: packageVersion(),
    unready: async () => {
      if (failure !== undefined) return { code: "store_failed", message: STORE_FAILED };
      const freeBytes = (await disk.freeBytes?.(dataDir)) ?? Number.POSITIVE_INFINITY;
      const isFull = room.waitText !== undefined || freeBytes < READY_BYTES_MIN;
      return isFull ? { code: "disk_full", message: DISK_FULL } : undefined;
    },
    limits: { ...limitsOf(options.requests), ...serverLimits },
    ...(isBehindProxy === undefined ? {} : { isBehindProxy }),
  });
  const ending = endingOf(opened, stack, service);
  return {
    handover: ending,
    handler: service.handler,
    plugin: service.plugin,
    satellites,
    failed,
    listen: async (where) => {
      const address = await service.listen(where);
      publicUrl.listensOn(address);
      await observation.listen(where?.host ?? "127.0.0.1");
      return address;
    },
    close: async () => {
      ending.stop();
      await service.close();
      await observation.close();
      await stack.close();
      await closeRest();
    },
  };
}

/** The steps before a close. `stop` may be called twice. */
function endingOf(
  { core, stopSending }: OpenedEngine,
  stack: Stack,
  service: Pick<HttpService, "release">,
): Handover & { stop(): void; isStopped(): boolean } {
  const { tasks } = stack;
  let isStopped = false;
  const stop = (): void => {
    if (isStopped) return;
    isStopped = true;
    stopSending();
    stack.stop();
    tasks.release();
  };
  return {
    stop,
    isStopped: () => isStopped,
    drained: async (signal) => {
      stop();
      await Promise.all([drained(core, signal), stack.drained(signal)]);
    },
    release: () => {
      stop();
      tasks.releaseAll();
      service.release();
    },
  };
}

function secretsOf(
  { core }: OpenedEngine,
  { env = process.env }: PerigeeServiceOptions,
): ReturnType<typeof eventSecrets> {
  return eventSecrets(
    core.config.providers.map(({ name }) => name),
    env,
  );
}

function frontTerms({ core }: OpenedEngine, { defaultSla }: PerigeeServiceOptions): ServiceContext["front"] {
  return {
    models: new ServedModels(core.config),
    defaultSlaMinutes: defaultSla === undefined ? undefined : slaMinutesOf(defaultSla, "defaultSla"),
  };
}

function limitsOf({ perMinute, perMinuteWithoutKey }: RequestBounds = {}): Partial<ServerLimits> {
  return {
    ...(perMinute === undefined ? {} : { requestsPerMinute: perMinute }),
    ...(perMinuteWithoutKey === undefined ? {} : { keylessPerMinute: perMinuteWithoutKey }),
  };
}

/** Of perigee. */
export function packageVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  return String((manifest as { readonly version: string }).version); // our own
}
