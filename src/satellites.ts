/**
 * The entry point `perigee/satellites`: custom satellites, and clusters of them.
 */

export type {
  ClusterIssue,
  ClusterRequest,
  Clusters,
  ClusterView,
  MemberStatus,
  MemberView,
} from "./clusters/cluster.ts";
export {
  type ClusterDeclaration,
  type ClusterMember,
  defineCluster,
  reference,
} from "./clusters/declaration/define_cluster.ts";
export type { OpenedSatellites } from "./clusters/open.ts";
export { batchInference } from "./satellites/builtin/batch_inference/batch_inference.ts";
export type { BatchInferenceOptions } from "./satellites/builtin/batch_inference/run.ts";
export type { TrustedSatellites } from "./satellites/kinds/known_satellites.ts";
export {
  createOrbitHost,
  type HostSecret,
  type OrbitHost,
  type OrbitHostOptions,
} from "./satellites/orbit/host.ts";
export type {
  Catalogue,
  Configuration,
  Registration,
  Registry,
  SatelliteKind,
  SatelliteState,
  SatelliteView,
} from "./satellites/sdk/catalogue.ts";
export { defineSatellite, type SatelliteDefinition } from "./satellites/sdk/define.ts";
export type { SatelliteDescription } from "./satellites/sdk/description.ts";
export type {
  ExecutionCaller,
  ExecutionError,
  ExecutionHold,
  ExecutionRequest,
  ExecutionStatus,
  Executions,
  ExecutionView,
} from "./satellites/sdk/execution.ts";
export type { GuardedHttp, GuardedResponse } from "./satellites/sdk/guarded_http.ts";
export type { SatelliteReference } from "./satellites/sdk/reference.ts";
export type {
  AnySatellite,
  Notes,
  OtherExecution,
  Satellite,
  SatelliteArguments,
  SatelliteCall,
  SatelliteExample,
  Schema,
} from "./satellites/sdk/satellite.ts";
export { SatelliteError, type SatelliteFailure } from "./satellites/sdk/satellite_error.ts";
export type { Secrets, SecretView } from "./satellites/secrets/secrets.ts";
