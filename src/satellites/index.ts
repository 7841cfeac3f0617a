/**
 * The door `perigee/satellites`: satellites of one's own, and clusters of them.
 */

export { type BatchInferenceOptions, batchInference } from "./builtin/batch_inference.ts";
export type {
  Catalogue,
  Configuration,
  Registration,
  Registry,
  SatelliteKind,
  SatelliteState,
  SatelliteView,
} from "./catalogue.ts";
export type {
  ClusterIssue,
  ClusterRequest,
  Clusters,
  ClusterView,
  MemberStatus,
  MemberView,
} from "./cluster/cluster.ts";
export {
  type ClusterDeclaration,
  type ClusterMember,
  defineCluster,
  reference,
} from "./cluster/define_cluster.ts";
export { defineSatellite, type SatelliteDefinition } from "./define.ts";
export type { SatelliteDescription } from "./description.ts";
export type {
  ExecutionCaller,
  ExecutionError,
  ExecutionHold,
  ExecutionRequest,
  ExecutionStatus,
  Executions,
  ExecutionView,
} from "./execution.ts";
export type { GuardedHttp, GuardedResponse } from "./guarded_http.ts";
export type { TrustedSatellites } from "./known_satellites.ts";
export type { OpenedSatellites } from "./open.ts";
export { createOrbitHost, type HostSecret, type OrbitHost, type OrbitHostOptions } from "./orbit/host.ts";
export type { SatelliteReference } from "./reference.ts";
export type {
  AnySatellite,
  Notes,
  OtherExecution,
  Satellite,
  SatelliteArguments,
  SatelliteCall,
  SatelliteExample,
  Schema,
} from "./satellite.ts";
export { SatelliteError, type SatelliteFailure } from "./satellite_error.ts";
export type { Secrets, SecretView } from "./secrets.ts";
