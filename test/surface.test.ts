/**
 * What programs outside rely on: the names of each entry point, pinned, and the fixed calls, checked as types. A change here
 * is a change for users and belongs into CHANGELOG.md.
 */
import { readFileSync } from "node:fs";
import { describe, expect, expectTypeOf, it } from "vitest";
import * as ai from "../src/ai/index.ts";
import * as fleet from "../src/fleet/index.ts";
import * as door from "../src/index.ts";
import * as providers from "../src/providers/index.ts";
import * as satellites from "../src/satellites.ts";
import * as service from "../src/service/index.ts";
import * as testing from "../src/testing/index.ts";

type Engine = door.Engine;

/** Values, then types, as `export` statements of an entry point name them. */
function namesOf(path: string): { values: string[]; types: string[] } {
  const text = readFileSync(new URL(`../src/${path}`, import.meta.url), "utf8");
  const values: string[] = [];
  const types: string[] = [];
  for (const [, isType, list = ""] of text.matchAll(/^export (type )?\{([^}]*)\} from/gm)) {
    for (const one of list.split(",").map((each) => each.trim())) {
      if (one === "") continue;
      const name = one.replace(/^type /, "").replace(/^\w+ as /, ""); // as it is exported
      if (isType !== undefined || one.startsWith("type ")) types.push(name);
      else values.push(name);
    }
  }
  return { values: values.sort(), types: types.sort() };
}

describe("the entry points", () => {
  it("are those of package.json", () => {
    const manifest = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8")) as {
      exports: Record<string, unknown>;
    };
    expect(Object.keys(manifest.exports)).toEqual([
      ".",
      "./ai",
      "./fleet",
      "./providers",
      "./satellites",
      "./service",
      "./testing",
      "./package.json",
    ]);
  });

  it("perigee", () => {
    expect(Object.keys(door).sort()).toEqual([
      "PerigeeError",
      "WireError",
      "createEngine",
      "fromCsv",
      "fromParquet",
      "readConfigFile",
      "systemClock",
      "systemDisk",
      "template",
    ]);
    expect(namesOf("index.ts")).toEqual({
      values: [
        "PerigeeError",
        "WireError",
        "createEngine",
        "fromCsv",
        "fromParquet",
        "readConfigFile",
        "systemClock",
        "systemDisk",
        "template",
      ],
      types: [
        "AnswerMembers",
        "AnswerSchema",
        "AttemptReport",
        "BatchStatus",
        "Clock",
        "ConfigOptions",
        "CsvRow",
        "Disk",
        "DiskFile",
        "Embedding",
        "EmbeddingOutput",
        "EndpointItem",
        "Engine",
        "EngineObserver",
        "EngineOptions",
        "ErrorCode",
        "ErrorGroup",
        "FactorRate",
        "Failure",
        "FailureCode",
        "FileStat",
        "FinishReason",
        "Hold",
        "HoldReason",
        "Item",
        "ItemTrace",
        "JournalEntry",
        "KnownModel",
        "LaneProgress",
        "LaneStatus",
        "LimitSettings",
        "LimitStatus",
        "LineItem",
        "Measurer",
        "MissingListener",
        "MissingProvider",
        "ModelName",
        "ModerationOutput",
        "Moment",
        "ObjectStatus",
        "Outcome",
        "Output",
        "OutputLine",
        "ParquetRow",
        "Plan",
        "PlanOptions",
        "PlannedModel",
        "PriceOverride",
        "PriceOverrides",
        "PriceSheet",
        "Progress",
        "ProgressEnd",
        "ProgressEvent",
        "ProgressOptions",
        "ProviderOptions",
        "Quote",
        "QuoteModel",
        "QuoteOptions",
        "QuoteSla",
        "RateCard",
        "RequestSource",
        "ResultLine",
        "RetryFailed",
        "RetryOptions",
        "RetryTaskOptions",
        "Run",
        "RunOptions",
        "RunWarning",
        "SettledReport",
        "SheetPrice",
        "Source",
        "StandardSchema",
        "Store",
        "StoredEntry",
        "StoredTask",
        "StreamRequest",
        "SubmitOptions",
        "SubmittedTask",
        "Summary",
        "TableOptions",
        "Task",
        "TaskCounts",
        "TaskObject",
        "Template",
        "TextOutput",
        "Timer",
        "TraceEvent",
        "Transport",
        "Usage",
        "UsedPrice",
        "Warning",
        "WarningListener",
        "WireChunks",
        "WireFailure",
        "WireRequest",
        "WireResult",
        "WireStream",
      ],
    });
  });

  it("perigee/ai", () => {
    expect(Object.keys(ai).sort()).toEqual([
      "ModelCallError",
      "UnknownKindError",
      "createPerigee",
      "modelProvider",
    ]);
    expect(namesOf("ai/index.ts").types).toEqual([
      "AnyCalledModel",
      "AskedEngine",
      "AskedService",
      "CalledAnswer",
      "CalledEmbeddingModel",
      "CalledEmbeddings",
      "CalledModel",
      "Embedded",
      "EmbeddingCall",
      "Generated",
      "GeneratedPart",
      "ModelCall",
      "ModelCallErrorFacts",
      "ModelVersion",
      "PerigeeCallOptions",
      "PerigeeEmbeddingModel",
      "PerigeeLanguageModel",
      "PerigeeModelOptions",
      "PerigeeOptions",
      "PerigeeProvider",
      "StreamedPart",
    ]);
  });

  it("perigee/fleet", () => {
    expect(Object.keys(fleet).toSorted()).toEqual([
      "openFleetWorker",
      "openObjects",
      "openPartitionDisk",
      "openPostgresStore",
      "sweepObjects",
    ]);
    expect(namesOf("fleet/index.ts").types).toEqual([
      "FilesStore",
      "FleetWorker",
      "FleetWorkerOptions",
      "ListedObject",
      "Objects",
      "ObjectsPlace",
      "PartitionDisk",
      "PartitionDiskOptions",
      "PostgresStoreOptions",
      "SpacedStore",
      "SweepOptions",
    ]);
  });

  it("perigee/providers", () => {
    expect(Object.keys(providers).sort()).toEqual(["KNOWN_PROVIDERS", "createProvider", "defaultSettings"]);
    expect(namesOf("providers/index.ts").types).toEqual([
      "Decoded",
      "EmbedAnswer",
      "EmbedFunction",
      "EmbedRequest",
      "Encoded",
      "FailureScope",
      "FunctionAnswer",
      "FunctionMessage",
      "FunctionRequest",
      "HeaderBag",
      "KnownProvider",
      "Protocol",
      "Provider",
      "ProviderFunction",
      "ProviderSettings",
      "WireAnswer",
      "WireHead",
    ]);
  });

  it("perigee/satellites", () => {
    expect(Object.keys(satellites).sort()).toEqual([
      "SatelliteError",
      "batchInference",
      "createOrbitHost",
      "defineCluster",
      "defineSatellite",
      "reference",
    ]);
    expect(namesOf("satellites.ts").types).toEqual([
      "AnySatellite",
      "BatchInferenceOptions",
      "Catalogue",
      "ClusterDeclaration",
      "ClusterIssue",
      "ClusterMember",
      "ClusterRequest",
      "ClusterView",
      "Clusters",
      "Configuration",
      "ExecutionCaller",
      "ExecutionError",
      "ExecutionHold",
      "ExecutionRequest",
      "ExecutionStatus",
      "ExecutionView",
      "Executions",
      "GuardedHttp",
      "GuardedResponse",
      "HostSecret",
      "MemberStatus",
      "MemberView",
      "Notes",
      "OpenedSatellites",
      "OrbitHost",
      "OrbitHostOptions",
      "OtherExecution",
      "Registration",
      "Registry",
      "Satellite",
      "SatelliteArguments",
      "SatelliteCall",
      "SatelliteDefinition",
      "SatelliteDescription",
      "SatelliteExample",
      "SatelliteFailure",
      "SatelliteKind",
      "SatelliteReference",
      "SatelliteState",
      "SatelliteView",
      "Schema",
      "SecretView",
      "Secrets",
      "TrustedSatellites",
    ]);
  });

  it("perigee/service", () => {
    expect(Object.keys(service).sort()).toEqual(["createPerigeeService"]);
    expect(namesOf("service/index.ts").types).toEqual([
      "Caller",
      "KeyArea",
      "KeyVerifier",
      "ListenOptions",
      "PerigeeService",
      "PerigeeServiceOptions",
      "SatelliteSettings",
      "Scope",
      "ServerLimits",
      "ServiceLog",
    ]);
  });

  it("perigee/testing", () => {
    expect(Object.keys(testing).sort()).toEqual([
      "FakeClock",
      "MemoryDisk",
      "ScriptedTransport",
      "clockContract",
      "createCrashableStore",
      "createInlineMeasurer",
      "createMemoryStore",
      "createRandom",
      "diskContract",
      "durableStoreContract",
      "durableWorkLogContract",
      "functionContract",
      "jsonAnswer",
      "keepingObjectsContract",
      "objectsContract",
      "openaiAnswer",
      "openaiError",
      "providerContract",
      "simulate",
      "storeContract",
      "transportContract",
      "workLogContract",
    ]);
    expect(namesOf("testing/index.ts").types).toEqual([
      "ClockUnderTest",
      "ContractCase",
      "CrashOptions",
      "CrashableStore",
      "CrashableStoreOptions",
      "DiskOperation",
      "FakeClockOptions",
      "LedgerEntry",
      "MeasureSettings",
      "MemoryDiskOptions",
      "Script",
      "ScriptContext",
      "SimulatedBatch",
      "SimulatedFailure",
      "SimulatedProvider",
      "SimulatedRequest",
      "SimulationEvent",
      "SimulationOptions",
      "SimulationResult",
      "StorageUnderTest",
      "TransportUnderTest",
      "WorkLogUnderTest",
    ]);
  });
});

describe("the fixed calls", () => {
  it("createEngine takes a data folder, providers and limits, and gives an engine", () => {
    expectTypeOf(door.createEngine).returns.resolves.toEqualTypeOf<Engine>();
    expectTypeOf(door.createEngine).toBeCallableWith({ dataDir: "state" });
    expectTypeOf(door.createEngine).toBeCallableWith({
      dataDir: "state",
      providers: { openai: { key: "sk-..." }, box: { baseUrl: "http://10.0.0.7:8000/v1" } },
      limits: { openai: { requestsPerMinute: 500, tokensPerMinute: 200_000, concurrency: 64 } },
    });
  });

  it("run takes a path, bytes or items, and is an async iterable of output lines", () => {
    expectTypeOf<Engine["run"]>().toBeCallableWith("in.jsonl", { sla: 60 });
    expectTypeOf<Engine["run"]>().toBeCallableWith(process.stdin);
    expectTypeOf<Engine["run"]>().toBeCallableWith([
      { key: "a", request: { model: "echo:x", contents: [] } },
    ]);
    expectTypeOf<Engine["run"]>().toBeCallableWith([
      { custom_id: "a", body: { model: "echo:x", messages: [] } },
    ]);
    expectTypeOf<ReturnType<Engine["run"]>>().toExtend<AsyncIterable<door.ResultLine>>();
    expectTypeOf<door.Run["finished"]>().resolves.toEqualTypeOf<door.Summary>();
    expectTypeOf<door.Run["progress"]>().returns.toEqualTypeOf<door.Progress>();
  });

  it("submit, task, object, forget, quote and close", () => {
    expectTypeOf<Engine["submit"]>().toBeCallableWith([{ model: "echo:x", input: "Hi", sla: 60 }]);
    expectTypeOf<Engine["submit"]>().returns.toEqualTypeOf<door.SubmittedTask>();
    expectTypeOf<Awaited<door.SubmittedTask>>().toEqualTypeOf<door.Task>();
    expectTypeOf<door.SubmittedTask["finished"]>().toEqualTypeOf<Promise<door.Task>>();
    expectTypeOf<door.SubmittedTask>().toExtend<AsyncIterable<door.TaskObject>>();
    type Completed = Extract<door.TaskObject, { readonly status: "completed" }>;
    expectTypeOf<Completed["output"]["text"]>().toEqualTypeOf<string>();
    expectTypeOf<
      Exclude<door.TaskObject, { readonly status: "submitted" | "completed" }>["error"]
    >().toEqualTypeOf<door.Failure>();
    expectTypeOf<Engine["task"]>().toEqualTypeOf<(id: string) => Promise<door.Task>>();
    expectTypeOf<Engine["object"]>().toEqualTypeOf<(id: string) => Promise<door.TaskObject>>();
    expectTypeOf<Engine["forget"]>().toEqualTypeOf<(taskId: string) => Promise<void>>();
    expectTypeOf<Engine["retry"]>().toBeCallableWith("id", { codes: ["timeout"] });
    expectTypeOf<Engine["retryTask"]>().toBeCallableWith("id", { codes: ["timeout"] });
    expectTypeOf<Engine["retryTask"]>().returns.resolves.toEqualTypeOf<door.Task>();
    expectTypeOf<Engine["retry"]>().returns.resolves.toEqualTypeOf<door.Run>();
    expectTypeOf<Engine["quote"]>().toBeCallableWith("in.jsonl", { slas: [60, 1_440], model: "echo:x" });
    expectTypeOf<Engine["quote"]>().returns.resolves.toEqualTypeOf<door.Quote>();
    expectTypeOf<Engine["plan"]>().toBeCallableWith("in.jsonl", { sla: 360, policy: "cheapest" });
    expectTypeOf<Engine["plan"]>().returns.resolves.toEqualTypeOf<door.Plan>();
    expectTypeOf<Engine["lanes"]>().toEqualTypeOf<() => readonly door.LaneStatus[]>();
    expectTypeOf<Engine["batches"]["list"]>().toEqualTypeOf<() => readonly door.BatchStatus[]>();
    expectTypeOf<Engine["batches"]["pollNow"]>().toEqualTypeOf<
      (provider: string, batchId: string) => boolean
    >();
    expectTypeOf<Engine["holds"]>().toEqualTypeOf<() => readonly door.Hold[]>();
    expectTypeOf<Engine["trace"]>().toEqualTypeOf<(id: string, key?: string) => Promise<door.ItemTrace>>();
    expectTypeOf<Engine["cancel"]>().toEqualTypeOf<(id: string) => Promise<door.Task>>();
    expectTypeOf<Engine["close"]>().toEqualTypeOf<() => Promise<void>>();
    expectTypeOf<keyof Engine>().toEqualTypeOf<
      | "batches"
      | "run"
      | "submit"
      | "task"
      | "object"
      | "forget"
      | "cancel"
      | "retry"
      | "retryTask"
      | "quote"
      | "plan"
      | "lanes"
      | "holds"
      | "trace"
      | "close"
    >();
  });
});
