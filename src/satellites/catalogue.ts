/**
 * Which satellites there are, and who may run which (interface 2.11).
 *
 *   community   registered -> verified -> approved -> (disabled)      until approved: its own project alone
 *   custom      registered -> (disabled)                              its own project alone
 *   configured  created -> (disabled)                                 its own project alone
 *   vendor      there from the start -> (disabled)                    callers with the beta flag
 */
import type { Page, PageQuery } from "../tasks/task_view.ts";
import type { JsonObject } from "../work/json.ts";
import type { ExecutionCaller } from "./execution.ts";
import type { SatelliteReference } from "./reference.ts";
import type { Satellite } from "./satellite.ts";

export type SatelliteKind = "vendor" | "community" | "custom" | "configured";

export type SatelliteState = "registered" | "verified" | "approved" | "disabled";

/** What lists and descriptions show of a satellite. No value of a configured one's secrets or fixed config. */
export interface SatelliteView {
  readonly reference: SatelliteReference;
  readonly kind: SatelliteKind;
  readonly state: SatelliteState;
  readonly description: string;
  /** JSON Schema 2020-12. */
  readonly inputSchema: JsonObject;
  readonly configSchema: JsonObject;
  readonly outputSchema?: JsonObject;
  /** Of a configured one: what it is made of, and the names of the settings that are fixed. */
  readonly base?: { readonly reference: SatelliteReference; readonly fixedConfig: readonly string[] };
  readonly isRepeatable: boolean | "by_input";
}

/** A satellite that may be run, and what goes into its config before what the caller gave. */
export interface ResolvedSatellite {
  readonly reference: SatelliteReference;
  readonly kind: SatelliteKind;
  readonly satellite: Satellite;
  /** Wins over what the caller gives; references to secrets in it are the owner's. */
  readonly fixedConfig: JsonObject;
}

/** Read by the runtime, at submission and again before every attempt. */
export interface SatelliteResolver {
  /** Throws `not_found` for what is none, is disabled, or is not for this caller, alike; `forbidden` for a vendor satellite without the beta flag. */
  resolve(caller: ExecutionCaller, reference: SatelliteReference): Promise<ResolvedSatellite>;
}

/** For routes and the command line: what is there. */
export interface Catalogue extends SatelliteResolver {
  describe(caller: ExecutionCaller, reference: SatelliteReference): Promise<SatelliteView>;
  /** Those that the caller may run, by namespace and name. `after` is `namespace/name`. */
  list(
    caller: ExecutionCaller,
    query: PageQuery & { readonly namespace?: string },
  ): Promise<Page<SatelliteView>>;
}
