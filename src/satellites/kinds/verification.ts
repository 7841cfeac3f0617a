/**
 * What a community satellite passes before the operator may approve it.
 *
 *   its host refuses another secret -> describes the satellite as it was registered -> runs the example, and the output is
 *   as the schema says, and as the example has it
 *
 * Says nothing of what the code does elsewhere: the operator who approves it judges that.
 */
import { randomUUID } from "node:crypto";
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import type { Files } from "../../tasks/files/files.ts";
import type { Tasks } from "../../tasks/shapes/tasks.ts";
import type { Json, JsonObject } from "../../work/json.ts";
import { describeRemote, remoteSatellite } from "../orbit/remote.ts";
import { newOrbitSecret } from "../orbit/signature.ts";
import { descriptionHash, type SatelliteDescription, toWire } from "../sdk/description.ts";
import type { GuardedHttp } from "../sdk/guarded_http.ts";
import { canonical, isEqual } from "../sdk/json_schema.ts";
import { SatelliteError } from "../sdk/satellite_error.ts";
import type { HostedSatellite } from "./satellite_records.ts";

const EXAMPLE_MS_MAX = 60_000;

/** Resolves with the hash of the description. Throws `conflict`, `details.isChanged` when it is another satellite by now. */
export async function verifyHosted(
  stored: HostedSatellite,
  clock: Clock,
  http: GuardedHttp,
): Promise<string> {
  const { url, secret, described } = stored;
  const { name } = described;
  const stranger = { url, secret: newOrbitSecret() };
  const refusal = await describeRemote(http, clock, stranger, name).catch((error: unknown) => error);
  if (!(refusal instanceof SatelliteError)) throw failed("its host answers requests that it cannot trust");
  if (refusal.code !== "host_unauthorized") throw failed(refusal.message);
  const found = await describeRemote(http, clock, { url, secret }, name).catch((error: Error) => {
    throw failed(error.message, error);
  });
  const hash = descriptionHash(described);
  if (descriptionHash(found) !== hash) {
    const message = `its host describes it otherwise than it was registered: ${differences(found, described)}`;
    throw new PerigeeError("conflict", message, { details: { isChanged: true } });
  }
  await runExample(stored, hash, clock, http);
  return hash;
}

function differences(found: SatelliteDescription, registered: SatelliteDescription): string {
  const [one, other] = [found, registered].map(
    (each) => JSON.parse(JSON.stringify(toWire(each))) as JsonObject,
  );
  const names = new Set([...Object.keys(one ?? {}), ...Object.keys(other ?? {})]);
  const differing = [...names].filter(
    (name) => canonical(one?.[name] ?? null) !== canonical(other?.[name] ?? null),
  );
  return differing.join(", ");
}

async function runExample(
  { reference, url, secret, described }: HostedSatellite,
  verifiedHash: string,
  clock: Clock,
  http: GuardedHttp,
): Promise<void> {
  const { example } = described;
  if (example === undefined) throw failed("it has no example");
  const notes = new Map<string, Json>();
  const remote = remoteSatellite({ endpoint: { url, secret }, described, verifiedHash });
  const output = await remote
    .run({
      ...{ input: example.input, config: example.config, executionId: randomUUID(), attempt: 1, clock, http },
      ...{ project: reference.namespace, secretValues: [] },
      signal: new AbortController().signal,
      deadlineWallMs: clock.wallMs() + EXAMPLE_MS_MAX,
      notes: { get: (name) => notes.get(name), set: async (name, value) => void notes.set(name, value) },
      progress: () => undefined,
      log: () => undefined,
      execute: async () => {
        throw new SatelliteError("permanent", "not_available", "examples run no other satellites");
      },
      ...NOTHING_HERE,
    })
    .catch((error: Error) => {
      throw failed(`its example failed: ${error.message}`, error);
    });
  if (example.output !== undefined && !isEqual(output, example.output))
    throw failed("its example has another output than it says");
}

/** What satellites that run elsewhere are not given. */
const NOTHING_HERE: { readonly files: Files; readonly tasks: Tasks } = {
  files: undefined as unknown as Files,
  tasks: undefined as unknown as Tasks,
};

function failed(message: string, cause?: unknown): PerigeeError {
  return new PerigeeError("conflict", `the satellite was not verified: ${message}`, { cause });
}
