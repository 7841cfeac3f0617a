/**
 * What the routes use, over one engine and its data folder: files, tasks and what happens after them, satellites.
 *
 *   opening, in that order -> open -> closing, satellites first -> closed
 */
import type { Clock } from "../clock.ts";
import { type OpenedSatellites, openSatellites } from "../clusters/open.ts";
import { AllowList, parseAllowList } from "../egress/address.ts";
import { createEgress, type Egress } from "../egress/egress.ts";
import type { SatelliteTerms } from "../engine/config/config_options.ts";
import type { EngineOptions, OpenedEngine } from "../engine/engine.ts";
import type { StoredFiles } from "../engine/media/media_places.ts";
import { BottleneckDestinations } from "../jobs/destinations.ts";
import { until } from "../polled.ts";
import type { SatelliteLogLine } from "../satellites/executions/attempt_run.ts";
import type { OtherSatellites } from "../satellites/kinds/satellite_records.ts";
import type { AnySatellite } from "../satellites/sdk/satellite.ts";
import { openVault } from "../satellites/secrets/vault.ts";
import type { Audit } from "../store/audit/audit_log.ts";
import { createFiles } from "../tasks/files/file_store.ts";
import type { Files } from "../tasks/files/files.ts";
import { type OpenedTasks, openTasks } from "../tasks/open_tasks.ts";
import { createSpending, type Spending } from "../tasks/usage/spending.ts";
import { openCompletion } from "./completion.ts";
import type { KeyVerifier } from "./http/key_verifier.ts";
import { ownFileId } from "./shapes/openai_ids.ts";
import type { Webhooks } from "./webhooks/webhooks.ts";

/** What an operator or a backend sets for satellites. */
export interface SatelliteSettings extends SatelliteTerms {
  /** Custom satellites of projects that run in this process, because the embedding program trusts them. */
  readonly trusted?: readonly { readonly project: string; readonly satellites: readonly AnySatellite[] }[];
  /** Receives what satellites log; the service's log has no such text, because it may hold what users sent. */
  readonly onLog?: (line: SatelliteLogLine) => void;
}

/** Those of the engine, and of what uses it. */
export interface StackOptions extends EngineOptions {
  readonly satellites?: SatelliteSettings;
  readonly verifier?: Pick<KeyVerifier, "isBetaKey">;
  /** Receives what is removed for its age. */
  readonly audit?: Audit;
  readonly onFault: (error: unknown) => void;
  /** Satellites of projects in other partitions of a fleet; undefined without a fleet. */
  readonly otherSatellites?: OtherSatellites | undefined;
  /** Receives what satellites log, beside the settings' `onLog`. */
  readonly onSatelliteLog?: (line: SatelliteLogLine) => void;
}

/** Everything that routes need. `close` leaves the engine open. */
export interface Stack {
  readonly files: Files;
  readonly tasks: OpenedTasks;
  readonly webhooks: Webhooks;
  readonly satellites: OpenedSatellites;
  readonly spending: Spending;
  /** Begins no further attempt of an execution or a delivery; those under way continue. */
  stop(): void;
  /** Resolves when no attempt of an execution is under way, or when the signal fires. After `stop`. Never rejects. */
  drained(signal: AbortSignal): Promise<void>;
  close(): Promise<void>;
}

/** Throws `invalid_config` for invalid networks, days and keys. The engine stays the caller's to close. */
export async function openStack(opened: OpenedEngine, options: StackOptions): Promise<Stack> {
  const { dataDir, verifier, audit, onFault, env = process.env } = options;
  const { measurer, storage } = opened.core;
  const { clock, disk, store, notice } = storage;
  const workLog = await opened.openLog(); // first: a folder is copied before anything is stored in it
  const egress = egressOf(clock, options);
  const work: { tasks?: OpenedTasks } = {};
  const named: Files["named"] = async (...asked) => (await work.tasks?.filesNamed(...asked)) ?? new Map();
  const files = await createFiles({ store, disk, clock, measurer, dataDir, named });
  storage.media.stored = storedMedia(files);
  const capUsd = (project: string): number | undefined => options.projects?.[project]?.maxCostUsd;
  const spending = createSpending({ clock, store, capUsd });
  const isShared = options.otherSatellites !== undefined;
  const vault = await openVault({ clock, store, disk, dataDir, env, isShared });
  const destinations = new BottleneckDestinations();
  const completion = await openCompletion({
    ...{ clock, store, workLog, disk, dataDir, notice, files, egress, vault, destinations, audit, onFault },
    retentionDays: options.retentionDays,
    openTasks: (onFinished) =>
      openTasks({
        ...opened,
        ...{ files, spending, workLog, dataDir },
        ...{ backlog: options.backlog, onFinished, onFault },
      }),
  });
  const { tasks, webhooks } = completion;
  work.tasks = tasks;
  const satellites = await openSatellites({
    ...{ clock, store, workLog, files, tasks, egress, vault, destinations, onFault },
    vendor: options.satellites,
    trusted: options.satellites?.trusted,
    log: (line) => {
      options.onSatelliteLog?.(line);
      options.satellites?.onLog?.(line);
    },
    isBetaKey: verifier?.isBetaKey?.bind(verifier),
    others: options.otherSatellites,
  });
  return {
    ...{ files, tasks, webhooks, satellites, spending },
    stop: () => {
      satellites.stop();
      webhooks.stop();
    },
    drained: (signal) => until(clock, () => satellites.executions.counts().running === 0, signal),
    close: async () => {
      await satellites.close();
      await completion.close();
    },
  };
}

function egressOf(clock: Clock, options: EngineOptions): Egress {
  const { egressAllow, egressPorts: ports = [], env = process.env } = options;
  const allow =
    egressAllow === undefined ? parseAllowList(env["PERIGEE_EGRESS_ALLOW"]) : new AllowList(egressAllow);
  return createEgress({ clock, allow, ports });
}

/** The files of a project by both forms of their ids. */
function storedMedia(files: Pick<Files, "file" | "read">): StoredFiles {
  return {
    file: async (project, id) => files.file(project, ownFileId(id)),
    read: (project, id) => files.read(project, ownFileId(id)),
  };
}
