/**
 * A batch of Gemini as its long-running operation shows it: states in both spellings, counts as strings, results in either place.
 */
import { arrayOf, objectOf, stringOf, type Unchecked } from "../json.ts";
import { rfc3339Ms } from "../retry_after.ts";
import { faultOf } from "./batch_failure.ts";
import { remoteId } from "./batch_host.ts";
import { requestsOf } from "./batch_json.ts";
import type {
  BatchCounts,
  BatchEnd,
  BatchFault,
  BatchRequest,
  RemoteBatch,
  ResultSource,
} from "./batch_wire.ts";
import { RPC_CANCELLED, rpcCodeOf, rpcHttpStatus, rpcName } from "./rpc_status.ts";

const ENDS: ReadonlyMap<string, BatchEnd> = new Map<string, BatchEnd>([
  ["SUCCEEDED", "completed"],
  ["PARTIALLY_SUCCEEDED", "completed"],
  ["FAILED", "failed"],
  ["CANCELLED", "cancelled"],
  ["EXPIRED", "expired"],
]);
const RPC_DEADLINE_EXCEEDED = 4;

/** The batch of an operation; undefined of anything else. `get`: the request whose answer holds results that are inline. */
export function geminiBatch(
  operation: Unchecked | undefined,
  download: (file: string) => BatchRequest,
  get: (id: string) => BatchRequest,
): RemoteBatch | undefined {
  const id = remoteId(operation?.["name"]);
  if (operation === undefined || id === undefined || !id.startsWith("batches/")) return undefined;
  const metadata = objectOf(operation["metadata"]) ?? {};
  const rawState = stringOf(metadata["state"]) ?? "";
  const state = rawState.replace(/^(?:BATCH|JOB)_STATE_/, "");
  const error = operation["error"] ?? undefined;
  const end = ENDS.get(state) ?? (operation["done"] === true ? endOfDone(error) : undefined);
  const input = remoteId(objectOf(metadata["inputConfig"])?.["fileName"]);
  const output = outputFile(operation, metadata);
  const hasShown = end === undefined ? [] : resultsOf(output, operation, metadata, download, () => get(id));
  return {
    id,
    rawState,
    end,
    isCancelling: state === "CANCELLING",
    counts: countsOf(metadata["batchStats"]),
    tag: stringOf(metadata["displayName"]),
    createdWallMs: rfc3339Ms(stringOf(metadata["createTime"])),
    expiresWallMs: undefined,
    faults: error === undefined ? [] : [fault(error)],
    results: hasShown,
    files: [input, output].filter((file) => file !== undefined),
  };
}

/** How an operation ended whose state is not known: `done` is what all operations have. */
function endOfDone(error: unknown): BatchEnd {
  if (error === undefined) return "completed";
  const code = rpcCodeOf(objectOf(error)?.["code"]);
  if (code === RPC_CANCELLED) return "cancelled";
  return code === RPC_DEADLINE_EXCEEDED ? "expired" : "failed";
}

function countsOf(value: unknown): BatchCounts {
  const stats = objectOf(value);
  const total = requestsOf(stats?.["requestCount"]);
  const succeeded = requestsOf(stats?.["successfulRequestCount"]);
  const failed = requestsOf(stats?.["failedRequestCount"]);
  return {
    ...(total === undefined ? {} : { total }),
    ...(succeeded === undefined ? {} : { succeeded }),
    ...(failed === undefined ? {} : { failed }),
  };
}

/** The status with an HTTP code and a name, as answers have it, so that it is read like them. */
function fault(error: unknown): BatchFault {
  const status = objectOf(error);
  if (status === undefined) return faultOf(error);
  const code = rpcHttpStatus(status["code"]) ?? status["code"];
  return faultOf({ ...status, code, status: status["status"] ?? rpcName(status["code"]) });
}

function outputFile(operation: Unchecked, metadata: Unchecked): string | undefined {
  const [response, output] = [objectOf(operation["response"]), objectOf(metadata["output"])];
  return remoteId(response?.["responsesFile"]) ?? remoteId(output?.["responsesFile"]);
}

const INLINE = ["inlinedResponses", "inlinedResponses"] as const;

function resultsOf(
  output: string | undefined,
  operation: Unchecked,
  metadata: Unchecked,
  download: (file: string) => BatchRequest,
  get: () => BatchRequest,
): readonly ResultSource[] {
  const sources: ResultSource[] = [];
  if (output !== undefined) sources.push({ request: download(output), format: "lines" });
  const places = [
    { from: objectOf(operation["response"]), path: ["response", ...INLINE] },
    { from: objectOf(metadata["output"]), path: ["metadata", "output", ...INLINE] },
  ];
  const place = places.find(({ from }) => {
    const inlined = arrayOf(objectOf(from?.[INLINE[0]])?.[INLINE[1]]);
    return inlined !== undefined && inlined.length > 0;
  });
  if (place !== undefined) sources.push({ request: get(), format: "array", path: place.path });
  return sources;
}
