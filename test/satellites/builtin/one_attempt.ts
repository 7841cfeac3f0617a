/** One attempt of a satellite, as the runtime makes it: schemas first, then `run` over the real network. */
import { type Clock, systemClock } from "../../../src/clock.ts";
import { AllowList } from "../../../src/egress/address.ts";
import { createEgress, type EgressOptions } from "../../../src/egress/egress.ts";
import { PerigeeError } from "../../../src/errors.ts";
import { createGuardedHttp } from "../../../src/satellites/sdk/guarded_http.ts";
import type { Notes, Satellite, SatelliteCall } from "../../../src/satellites/sdk/satellite.ts";
import { SatelliteError } from "../../../src/satellites/sdk/satellite_error.ts";
import type { Files } from "../../../src/tasks/files/files.ts";
import type { Json, JsonObject } from "../../../src/work/json.ts";

export const EXECUTION_ID = "0f3d2a64-7b1c-4e58-9a0d-2f6c8e1b4a37";

export interface Attempt {
  readonly input?: unknown;
  readonly config: unknown;
  readonly executionId?: string;
  readonly notes?: Notes;
  /** Texts or bytes by id. */
  readonly files?: Readonly<Record<string, string | Uint8Array>>;
  /** In place of them, where a satellite keeps files. */
  readonly fileStore?: Files;
  readonly signal?: AbortSignal;
  readonly egress?: Partial<EgressOptions>;
  readonly clock?: Clock;
  readonly onProgress?: (done: number, total?: number) => void;
}

/** Resolves with the output; rejects with what `run` throws, and with the messages of the schemas. */
export async function attempt<Input, Config>(
  satellite: Satellite<Input, Config>,
  given: Attempt,
): Promise<JsonObject> {
  const call = await callOf(satellite, given);
  const output = await satellite.run(call);
  const checked = await satellite.output?.["~standard"].validate(output);
  if (checked?.issues !== undefined) throw new Error(`output: ${JSON.stringify(checked.issues)}`);
  return JSON.parse(JSON.stringify(output)) as JsonObject;
}

/** As `attempt`, for one that fails. */
export async function failedAttempt<Input, Config>(
  satellite: Satellite<Input, Config>,
  given: Attempt,
): Promise<SatelliteError> {
  try {
    await attempt(satellite, given);
  } catch (error) {
    if (error instanceof SatelliteError) return error;
    throw error;
  }
  throw new Error("the attempt did not fail");
}

export async function callOf<Input, Config>(
  satellite: Satellite<Input, Config>,
  given: Attempt,
): Promise<SatelliteCall<Input, Config>> {
  const input = await checked(satellite.input, given.input ?? {}, "input");
  const config = await checked(satellite.config, given.config, "config");
  const { executionId = EXECUTION_ID, notes = new MemoryNotes() } = given;
  const { signal = new AbortController().signal, onProgress = () => undefined } = given;
  const egress = createEgress({
    clock: systemClock,
    allow: new AllowList(["127.0.0.0/8"]),
    ...given.egress,
  });
  return {
    input,
    config,
    executionId,
    project: "one",
    attempt: 1,
    secretValues: [],
    signal,
    deadlineWallMs: systemClock.wallMs() + 60_000,
    clock: given.clock ?? systemClock,
    http: createGuardedHttp(egress),
    files: given.fileStore ?? filesOf(given.files ?? {}),
    tasks: undefined as never, // these never run inference
    notes,
    progress: onProgress,
    log: () => undefined,
    execute: async () => ({}), // these never run another
  };
}

async function checked<T>(schema: Satellite<T, T>["input"], value: unknown, what: string): Promise<T> {
  const result = await schema["~standard"].validate(value);
  if (result.issues === undefined) return result.value;
  const told = result.issues.map(({ path, message }) => `${what}.${(path ?? []).join(".")}: ${message}`);
  throw new Error(told.join("; "));
}

/** As the runtime keeps them; may be given to several attempts. */
export class MemoryNotes implements Notes {
  readonly all = new Map<string, string>();

  get(name: string): Json | undefined {
    const text = this.all.get(name);
    return text === undefined ? undefined : (JSON.parse(text) as Json);
  }

  async set(name: string, value: Json): Promise<void> {
    this.all.set(name, JSON.stringify(value));
    if ([...this.all.values()].join("").length > 65_536) throw new PerigeeError("too_large", "notes");
  }
}

function filesOf(contents: NonNullable<Attempt["files"]>): Files {
  const bytesOf = (project: string, id: string): Uint8Array => {
    const content = contents[id];
    if (content === undefined || project !== "one") throw new PerigeeError("not_found", "no such file");
    return typeof content === "string" ? new TextEncoder().encode(content) : content;
  };
  const none = (): never => {
    throw new Error("not of this test");
  };
  return {
    put: none,
    list: none,
    remove: none,
    named: none,
    index: none,
    assertWhole: none,
    assertKeysDiffer: none,
    hold: () => () => undefined,
    file: async (project, id) => ({
      id,
      project,
      name: "a.jsonl",
      bytes: bytesOf(project, id).length,
      mimeType: "application/octet-stream",
      createdWallMs: 0,
      purpose: "batch",
      sha256: "",
      items: 0,
    }),
    async *read(project, id, { start, end } = { start: 0, end: Number.POSITIVE_INFINITY }) {
      const bytes = bytesOf(project, id).subarray(start, end);
      for (let at = 0; at < bytes.length; at += 1_000) yield bytes.subarray(at, at + 1_000);
    },
  };
}
