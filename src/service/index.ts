/**
 * The names of `perigee/service`. The server is loaded when the first service is created.
 */
import type { PerigeeService } from "./perigee_service.ts";
import type { PerigeeServiceOptions } from "./service_options.ts";

export type { Caller, Scope } from "./http/caller.ts";
export type { KeyArea, KeyVerifier } from "./http/key_verifier.ts";
export type { ServerLimits } from "./http/server.ts";
export type { PerigeeService } from "./perigee_service.ts";
export type { ListenOptions } from "./service.ts";
export type { PerigeeServiceOptions, ServiceLog } from "./service_options.ts";
export type { SatelliteSettings } from "./stack.ts";

/** Opens the data folder, continues what is open, and is ready. Throws as `createEngine`. */
export async function createPerigeeService(options: PerigeeServiceOptions): Promise<PerigeeService> {
  const { openPerigeeService } = await import("./perigee_service.ts");
  return openPerigeeService(options);
}
