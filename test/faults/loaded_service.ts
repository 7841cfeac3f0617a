/**
 * A service on a port of its own before a slow provider, for tests of load. A key is a project's name.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { createPerigeeService, type PerigeeServiceOptions, type Scope } from "../../src/service/index.ts";
import { type Call, callerOf, completedTask } from "../service/serving.ts";
import { startThreeProtocols, type ThreeProtocols } from "./three_protocols.ts";

const SCOPES: readonly Scope[] = ["infer:read", "infer:write", "files:read", "files:write"];

export interface LoadedOptions extends Partial<PerigeeServiceOptions> {
  /** How long the provider takes, and how many it takes at a time. Defaults 20 and 8. */
  readonly latencyMs?: number;
  readonly places?: number;
}

export interface LoadedService {
  readonly url: string;
  readonly dataDir: string;
  readonly provider: ThreeProtocols;
  callerOf(project: string): Call;
  /** Ends the process's service and opens the folder again, as the next process would. */
  restart(): Promise<void>;
}

/** Closed when the test is over. */
export async function openLoaded({
  latencyMs = 20,
  places = 8,
  ...options
}: LoadedOptions): Promise<LoadedService> {
  const dataDir = mkdtempSync(join(tmpdir(), "perigee-load-"));
  const provider = await startThreeProtocols(latencyMs);
  const open = async () => {
    const service = await createPerigeeService({
      dataDir,
      env: {},
      providers: { openai: { baseUrl: `${provider.url}/v1`, key: "k", ramp: false } },
      limits: { openai: { concurrency: places } },
      lanes: { deny: ["batch"] }, // the provider has none, and load is measured from the first request on
      verifier: {
        verify: (authorization) => {
          const project = /^Bearer (\w+)$/.exec(authorization ?? "")?.[1];
          if (project === undefined) return undefined;
          return { keyId: project, project, scopes: new Set(SCOPES), isBeta: false };
        },
      },
      ...options,
    });
    return { service, url: await service.listen({ port: 0 }) };
  };
  let current = await open();
  onTestFinished(async () => {
    await current.service.close();
    await provider.close();
    rmSync(dataDir, { recursive: true, force: true });
  });
  return {
    get url() {
      return current.url;
    },
    dataDir,
    provider,
    callerOf: (project) => callerOf(current.url, `Bearer ${project}`),
    restart: async () => {
      await current.service.close();
      current = await open();
    },
  };
}

/** So many items for the slow provider, each with a prompt of its own. */
export function slowItems(name: string, count: number): object[] {
  return Array.from({ length: count }, (_, index) => ({
    model: "openai:gpt-4o-mini",
    input: `${name} ${index}`,
    sla: 60,
  }));
}

/** The texts of a task's answers, once it is completed. */
export async function answersOf(call: Call, id: string): Promise<readonly string[]> {
  await completedTask(call, id);
  const { body } = await call("GET", `/v0/infer/task/${id}?limit=1000`);
  return body.objects.map((object) => (object as unknown as Answered).output.text);
}

interface Answered {
  readonly output: { readonly text: string };
}
