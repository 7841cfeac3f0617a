/**
 * The door `perigee/service`: the service on one engine and one data folder.
 *
 *   opening (folder locked, open tasks continued) -> open -> draining -> closed
 */
import { readFileSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { AllowList } from "../egress/address.ts";
import { type EngineOptions, type OpenedEngine, openEngine } from "../engine/engine.ts";
import type { PerigeeError } from "../errors.ts";
import { openKeyStore } from "../store/key_store.ts";
import { createFiles } from "../tasks/file_store.ts";
import { createSpending } from "../tasks/spending.ts";
import { openTasks } from "../tasks/task_desk.ts";
import { openAftercare } from "./aftercare.ts";
import { Idempotency } from "./idempotency.ts";
import { createKeyVerifier, type KeyVerifier } from "./key_verifier.ts";
import type { ServerLimits } from "./server.ts";
import { createHttpService, type HttpService } from "./service.ts";

export type { Caller, Scope } from "./caller.ts";
export type { KeyArea, KeyVerifier } from "./key_verifier.ts";
export type { ServerLimits } from "./server.ts";
export type { ListenOptions } from "./service.ts";

/** Options of `createPerigeeService`: those of `createEngine`, and these. */
export interface PerigeeServiceOptions extends EngineOptions {
  /** Who a request's key stands for. Default: the keys of the data folder, made with `perigee keys create`. */
  readonly verifier?: KeyVerifier;
  readonly serverLimits?: Partial<ServerLimits>;
  /** A TLS proxy stands in front: other addresses than loopback are allowed, and its `X-Forwarded-For` is believed. */
  readonly isBehindProxy?: boolean;
  /** The address under which users reach the service, without a slash at the end. Default: where it listens. */
  readonly publicUrl?: string;
  /** Told of faults, which answer 500 or 503, with the id of the request (or `background`). The error's text may hold what a user sent. */
  readonly onFault?: (error: unknown, requestId: string) => void;
}

/** The service. `listen`, `handler` and `plugin` may be used together. */
export interface PerigeeService extends Pick<HttpService, "listen" | "handler" | "plugin" | "close"> {
  /** Resolves with the error when the engine cannot go on; the process should be started again then. */
  readonly failed: Promise<PerigeeError>;
}

/** Opens the data folder, continues what is open, and is ready. Throws as `createEngine`. */
export async function createPerigeeService(options: PerigeeServiceOptions): Promise<PerigeeService> {
  const {
    verifier,
    serverLimits: _serverLimits,
    isBehindProxy: _isBehindProxy,
    publicUrl: _publicUrl,
    onFault: _onFault,
    ...engineOptions
  } = options;
  await mkdir(options.dataDir, { recursive: true, mode: 0o700 });
  const opened = await openEngine(engineOptions); // first: it locks the folder
  try {
    if (verifier !== undefined) return await open(opened, options, verifier);
    const keys = await openKeyStore({ dataDir: options.dataDir, clock: opened.parts.clock });
    try {
      const service = await open(opened, options, createKeyVerifier(keys));
      return { ...service, close: () => service.close().finally(() => keys.close()) };
    } catch (error) {
      keys.close();
      throw error;
    }
  } catch (error) {
    await opened.engine.close();
    throw error;
  }
}

async function open(
  { engine, parts }: OpenedEngine,
  options: PerigeeServiceOptions,
  verifier: KeyVerifier,
): Promise<PerigeeService> {
  const { dataDir, serverLimits, isBehindProxy, onFault } = options;
  const { clock, disk, store, measurer } = parts;
  const files = await createFiles({ store, disk, clock, measurer, dataDir });
  const capUsd = (project: string): number | undefined => options.projects?.[project]?.maxCostUsd;
  const spending = createSpending({ clock, store, capUsd });
  const aftercare = await openAftercare({
    clock,
    store,
    files,
    egressAllow:
      options.egressAllow === undefined
        ? (options.env ?? process.env)["PERIGEE_EGRESS_ALLOW"]
        : new AllowList(options.egressAllow),
    egressPorts: options.egressPorts,
    retentionDays: options.retentionDays,
    onFault: (error) => options.onFault?.(error, "background"),
    openTasks: (onFinished) => openTasks({ engine, parts, files, spending, dataDir, onFinished }),
  });
  const { tasks, webhooks } = aftercare;
  let url = options.publicUrl ?? "http://127.0.0.1";
  const service = await createHttpService({
    context: {
      clock,
      disk,
      store,
      engine,
      tasks,
      files,
      webhooks,
      idempotency: new Idempotency({ clock, store }),
      dataDir,
      publicUrl: () => url,
    },
    spending,
    verifier,
    version: packageVersion(),
    ...(serverLimits === undefined ? {} : { limits: serverLimits }),
    ...(isBehindProxy === undefined ? {} : { isBehindProxy }),
    ...(onFault === undefined ? {} : { onFault }),
  });
  const failed = new Promise<PerigeeError>((resolve) => {
    parts.onFailure(resolve);
  });
  return {
    handler: service.handler,
    plugin: service.plugin,
    failed,
    listen: async (where) => {
      const address = await service.listen(where);
      url = options.publicUrl ?? address;
      return address;
    },
    close: async () => {
      await service.close();
      await aftercare.close();
      await engine.close();
    },
  };
}

function packageVersion(): string {
  const manifest: unknown = JSON.parse(readFileSync(new URL("../../package.json", import.meta.url), "utf8"));
  return String((manifest as { readonly version: string }).version); // our own
}
