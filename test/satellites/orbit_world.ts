/**
 * A host of satellites on a port of its own, and calls to it as the runtime makes them.
 */
import { randomUUID } from "node:crypto";
import { onTestFinished } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { AllowList } from "../../src/egress/address.ts";
import { createEgress } from "../../src/egress/egress.ts";
import { PerigeeError } from "../../src/errors.ts";
import { createOrbitHost, type OrbitHostOptions } from "../../src/satellites/orbit/host.ts";
import { remoteSatellite } from "../../src/satellites/orbit/remote.ts";
import { newOrbitSecret } from "../../src/satellites/orbit/signature.ts";
import { describeSatellite } from "../../src/satellites/sdk/description.ts";
import { createGuardedHttp, type GuardedHttp } from "../../src/satellites/sdk/guarded_http.ts";
import type { AnySatellite, Satellite, SatelliteCall } from "../../src/satellites/sdk/satellite.ts";
import type { Json } from "../../src/work/json.ts";

/** Egress that may go to this machine. */
export const localHttp: GuardedHttp = createGuardedHttp(
  createEgress({ clock: systemClock, allow: new AllowList(["127.0.0.0/8"]) }),
);

export interface Hosted {
  readonly url: string;
  readonly secret: string;
  /** What the operator of the host reads. */
  readonly lines: string[];
  /** The satellite as an engine knows it from its description. */
  remote(
    satellite: AnySatellite,
    options?: { verifiedHash?: string; onChanged?: () => void; secret?: string },
  ): Satellite;
}

export async function host(
  satellites: readonly AnySatellite[],
  options: Partial<OrbitHostOptions> = {},
): Promise<Hosted> {
  const secret = newOrbitSecret();
  const lines: string[] = [];
  const opened = createOrbitHost({
    ...{ clock: systemClock, http: localHttp, satellites, secrets: [{ secret }] },
    log: (line) => lines.push(line),
    ...options,
  });
  const url = await opened.listen({ host: "127.0.0.1", port: 0 });
  onTestFinished(() => opened.close());
  return {
    ...{ url, secret, lines },
    remote: (satellite, given = {}) =>
      remoteSatellite({
        ...given,
        endpoint: { url, secret: given.secret ?? secret },
        described: describeSatellite(satellite),
      }),
  };
}

export interface Heard {
  readonly call: SatelliteCall;
  readonly progress: (readonly [number, number | undefined])[];
  readonly logs: string[];
  /** What is durable. */
  readonly notes: Map<string, Json>;
}

/** An attempt, as the runtime makes it. */
export function attempt(given: Partial<SatelliteCall> = {}): Heard {
  const progress: (readonly [number, number | undefined])[] = [];
  const logs: string[] = [];
  const notes = new Map<string, Json>();
  const call = {
    ...{ input: {}, config: {}, executionId: randomUUID(), project: "acme", attempt: 1 },
    ...{
      secretValues: [],
      signal: new AbortController().signal,
      deadlineWallMs: systemClock.wallMs() + 60_000,
    },
    ...{ clock: systemClock, http: localHttp },
    notes: {
      get: (name: string) => notes.get(name),
      set: async (name: string, value: Json) => {
        if (JSON.stringify(value).length > 65_536) throw new PerigeeError("too_large", "64 KiB of notes");
        notes.set(name, value);
      },
    },
    progress: (done: number, total?: number) => void progress.push([done, total]),
    log: (level: string, message: string) => void logs.push(`${level} ${message}`),
    ...given,
  } as unknown as SatelliteCall; // files and tasks are not used here
  return { call, progress, logs, notes };
}
