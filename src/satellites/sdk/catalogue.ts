/**
 * Which satellites there are, and who may run which (interface 2.11).
 *
 *   community   registered -> verified -> approved -> (disabled)      until approved: only its own project
 *   custom      registered -> (disabled)                              only its own project
 *   configured  created -> (disabled)                                 only its own project
 *   vendor      there from the start -> (disabled)                    callers with the beta flag
 */
import type { Page, PageQuery } from "../../tasks/shapes/task_view.ts";
import type { JsonObject } from "../../work/json.ts";
import type { SatelliteDescription } from "./description.ts";
import type { ExecutionCaller } from "./execution.ts";
import type { SatelliteReference } from "./reference.ts";
import type { Satellite, SatelliteExample } from "./satellite.ts";

/**
 * `vendor` is part of perigee; `community` and `custom` are hosted by a project, for all and for itself;
 * `configured` fixes settings of another.
 */
export type SatelliteKind = "vendor" | "community" | "custom" | "configured";

/** How far it is trusted, as drawn above; one that is `disabled` runs for nobody. */
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
  readonly example?: SatelliteExample;
  /** Where it is hosted; shown to its own project and to the operator. */
  readonly url?: string;
}

/** A satellite that may be run, and the config that is fixed below the caller's. */
export interface ResolvedSatellite {
  readonly reference: SatelliteReference;
  readonly kind: SatelliteKind;
  readonly satellite: Satellite;
  /** Wins over the caller's config; references to secrets in it are the owner's. */
  readonly fixedConfig: JsonObject;
}

/** Read by the runtime, at submission and again before every attempt. */
export interface SatelliteResolver {
  /** Throws `not_found` alike for a satellite that does not exist, is disabled, or is not for this caller; `forbidden` for a vendor satellite without the beta flag. */
  resolve(caller: ExecutionCaller, reference: SatelliteReference): Promise<ResolvedSatellite>;
}

/** For routes and the command line: what exists. */
export interface Catalogue extends SatelliteResolver {
  describe(caller: ExecutionCaller, reference: SatelliteReference): Promise<SatelliteView>;
  /** Those that the caller may run, by namespace and name. `after` is `namespace/name`. */
  list(
    caller: ExecutionCaller,
    query: PageQuery & { readonly namespace?: string },
  ): Promise<Page<SatelliteView>>;
}

/** A satellite that `perigee orbit serve` hosts. */
export interface Registration {
  readonly kind: "custom" | "community";
  /** https, or http on this machine. */
  readonly url: string;
  readonly described: SatelliteDescription;
  /** Whether a satellite that is registered again gets another secret. */
  readonly isSecretRenewed?: boolean;
}

/** An existing satellite with its own settings. */
export interface Configuration {
  readonly base: SatelliteReference;
  /** Settings that are fixed; they may refer to secrets. Never shown again. */
  readonly config: JsonObject;
  /** Default: that of the base. */
  readonly description?: string;
}

/**
 * Adds, changes and disables satellites. Changes are durable when they resolve, and are seen by every attempt from then on. Throws
 * `not_found` for what does not exist or is not the project's, `conflict` for what cannot be done in a state or to a kind,
 * `invalid_request` (`details.param`) for invalid values, `too_many` above 100 satellites of a project.
 */
export interface Registry {
  /**
   * Makes or replaces one. The secret signs requests to the host and is only in this answer: of a new one, or when it
   * is renewed. What changes in a community satellite takes it back to `registered`. Throws `blocked_destination`.
   */
  register(
    project: string,
    registration: Registration,
  ): Promise<{ readonly view: SatelliteView; readonly secret?: string }>;
  /** Makes or replaces one. Throws `not_found` and `forbidden` as `resolve` does for the base. */
  configure(caller: ExecutionCaller, name: string, wanted: Configuration): Promise<SatelliteView>;
  /** Those that are based on it are not found from then on. */
  remove(project: string, name: string): Promise<void>;
  /** For the operator: asks the host of a community satellite and runs its example. Throws `conflict` when it does not pass. */
  verify(reference: SatelliteReference): Promise<SatelliteView>;
  /** For the operator, as the two below: one that is verified. */
  approve(reference: SatelliteReference): Promise<SatelliteView>;
  disable(reference: SatelliteReference): Promise<SatelliteView>;
  /** Back to what it was before it was disabled. */
  enable(reference: SatelliteReference): Promise<SatelliteView>;
  /** For the operator: all satellites of all projects, as `list`. */
  all(query: PageQuery & { readonly namespace?: string }): Promise<Page<SatelliteView>>;
}
