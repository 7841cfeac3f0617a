/**
 * The door `perigee/satellites`: satellites of one's own, and clusters of them.
 */

export { type BatchInferenceOptions, batchInference } from "./builtin/batch_inference.ts";
export { callWebhook } from "./builtin/call_webhook.ts";
export { forwardLogs } from "./builtin/forward_logs.ts";
export { sendAlert } from "./builtin/send_alert.ts";
export type { Catalogue, SatelliteKind, SatelliteState, SatelliteView } from "./catalogue.ts";
export type {
  ClusterIssue,
  ClusterRequest,
  Clusters,
  ClusterView,
  MemberStatus,
  MemberView,
} from "./cluster/cluster.ts";
export { defineSatellite } from "./define.ts";
export type {
  ExecutionCaller,
  ExecutionError,
  ExecutionRequest,
  ExecutionStatus,
  Executions,
  ExecutionView,
} from "./execution.ts";
export type { GuardedHttp, GuardedResponse } from "./guarded_http.ts";
export type { SatelliteReference } from "./reference.ts";
export type { Notes, Satellite, SatelliteArguments, SatelliteCall, Schema } from "./satellite.ts";
export { SatelliteError, type SatelliteFailure } from "./satellite_error.ts";
export type { Secrets, SecretView } from "./secrets.ts";
