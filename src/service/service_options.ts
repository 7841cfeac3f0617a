/**
 * The options of a service. Those that the engine does not have are checked here by name and kind.
 */
import {
  A_FUNCTION,
  A_LIST,
  A_TEXT,
  A_TRUTH,
  AN_AMOUNT,
  AN_OBJECT,
  anObjectOf,
  checkCallOptions,
  kindOf,
  type OptionSchema,
} from "../engine/call_options.ts";
import type { EngineOptions } from "../engine/engine_options.ts";
import { PerigeeError } from "../errors.ts";
import type { KeyVerifier } from "./http/key_verifier.ts";
import type { LogOptions } from "./http/log.ts";
import type { ServerLimits } from "./http/server.ts";
import type { SatelliteSettings } from "./stack.ts";

/** Options of `createPerigeeService`: those of `createEngine`, and these. */
export interface PerigeeServiceOptions extends EngineOptions {
  /** Finds the project of a request's key. Default: the keys of the data folder, made with `perigee keys create`. */
  readonly verifier?: KeyVerifier;
  readonly serverLimits?: Partial<ServerLimits>;
  /** Whether a TLS proxy is in front: addresses other than loopback are then allowed, and its `X-Forwarded-For` is trusted. */
  readonly isBehindProxy?: boolean;
  /**
   * The address under which users reach the service, without a slash at the end. Default: where it listens; for a mounted
   * service, the address and the path of its first request.
   */
  readonly publicUrl?: string;
  /**
   * The sla of calls with `service_tier: "flex"`, such as `15m`: a duration in whole minutes from 1m to 30d. Default: such calls are
   * refused.
   */
  readonly defaultSla?: string;
  /** Lines of JSON for requests and faults, with only ids, codes and sizes. Default: no log. */
  readonly log?: ServiceLog;
  /** A separate port for metrics. Default: `/metrics` on the service's port, only for callers on this machine. */
  readonly metricsPort?: number;
  /** Settings of perigee's satellites, and satellites of the program. */
  readonly satellites?: SatelliteSettings;
  /**
   * Called for faults, which answer 500 or 503, with the id of the request, or `background`, or `audit` if the audit log cannot
   * be written. The error's text may hold what a user sent.
   */
  readonly onFault?: (error: unknown, requestId: string) => void;
}

/** The destination of the log. */
export type ServiceLog = Omit<LogOptions, "clock">;

const LIMITS: OptionSchema<ServerLimits> = {
  requestsPerMinute: AN_AMOUNT,
  keylessPerMinute: AN_AMOUNT,
  headersMs: AN_AMOUNT,
  uploadMs: AN_AMOUNT,
  idleMs: AN_AMOUNT,
  keepAliveMs: AN_AMOUNT,
};

const LOG: OptionSchema<ServiceLog> = {
  level: { expected: "info or error", isValid: (value) => value === "info" || value === "error" },
  write: A_FUNCTION,
};

const SATELLITES: OptionSchema<SatelliteSettings> = {
  models: AN_OBJECT,
  roots: AN_OBJECT,
  opendal: AN_OBJECT,
  mailPorts: A_LIST,
  trusted: A_LIST,
  onLog: A_FUNCTION,
};

/** With `satellites`, which the configuration files of engines have, too. */
type OwnOptions = Omit<PerigeeServiceOptions, Exclude<keyof EngineOptions, "satellites">>;

const OWN: OptionSchema<OwnOptions> = {
  verifier: AN_OBJECT,
  serverLimits: anObjectOf<ServerLimits>(LIMITS),
  isBehindProxy: A_TRUTH,
  publicUrl: A_TEXT,
  defaultSla: A_TEXT,
  log: anObjectOf<ServiceLog>(LOG),
  metricsPort: AN_AMOUNT,
  satellites: anObjectOf<SatelliteSettings>(SATELLITES),
  onFault: A_FUNCTION,
};

/** Throws `usage` for an option of the wrong kind or with an unknown member. The engine checks all other names. */
export function checkServiceOptions(options: PerigeeServiceOptions): void {
  if (!AN_OBJECT.isValid(options))
    throw new PerigeeError(
      "usage",
      `createPerigeeService: options must be an object such as { dataDir: "./perigee-data" }, got ${kindOf(options)}`,
    );
  if (!A_TEXT.isValid(options.dataDir))
    throw new PerigeeError(
      "usage",
      `options: dataDir must be the path of a folder, got ${kindOf(options.dataDir)}`,
    );
  const own = Object.entries(options).filter(([name]) => Object.hasOwn(OWN, name));
  checkCallOptions(Object.fromEntries(own), OWN, "options");
}
