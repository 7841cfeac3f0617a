/**
 * `perigee workers`: the workers of a fleet, their partitions, and what is charged of shared limits.
 */
import { type FleetReport, type ReportedPartition, readFleetReport } from "../../fleet/fleet_report.ts";
import { timestamp } from "../../service/shapes/timestamp.ts";
import { errorJson } from "../exit.ts";
import { table } from "../table.ts";

interface WorkersArguments {
  readonly store: string;
  readonly json?: boolean;
}

/** Returns the exit code; throws for what `exitCodeOf` knows. */
export async function workers(options: Record<string, unknown>): Promise<number> {
  const { store, json: isJson = false } = options as unknown as WorkersArguments; // declared in fleet_commands.ts
  try {
    const report = await readFleetReport(store);
    process.stdout.write(isJson ? `${JSON.stringify(reportJson(report))}\n` : reportText(report));
    return 0;
  } catch (error) {
    if (isJson) process.stdout.write(`${errorJson(error)}\n`);
    throw error;
  }
}

function reportJson({ schema, workers: all, free, limits }: FleetReport): object {
  return {
    schema,
    workers: all.map(
      ({ id, name, role, version, state, address, leaseLeftMs, partitions, startedWallMs }) => ({
        ...{
          id,
          name,
          role,
          version,
          state,
          address,
          lease_ms: leaseLeftMs,
          partitions: partitions.map(partitionJson),
        },
        started_at: timestamp(startedWallMs),
      }),
    ),
    free_partitions: free.map(partitionJson),
    limits: limits.map(({ quota, charged, limit }) => ({ quota, charged, limit: limit ?? null })),
  };
}

function partitionJson({ part, leaseLeftMs, projects }: ReportedPartition): object {
  return { partition: part, lease_ms: leaseLeftMs ?? null, projects };
}

function reportText({ workers: all, free, limits }: FleetReport): string {
  const head = ["worker", "role", "state", "lease", "partitions", "projects", "version", "since", "address"];
  const rows = all.map(({ name, role, state, leaseLeftMs, partitions, version, startedWallMs, address }) => [
    ...[name, role, state, seconds(leaseLeftMs), numbers(partitions), projectCount(partitions), version],
    ...[timestamp(startedWallMs).slice(0, 19), address],
  ]);
  const parts = [
    rows.length === 0 ? "no workers\n" : table([head, ...rows]),
    ...(free.length === 0
      ? []
      : [`\nwithout a worker: ${free.length === 1 ? "partition" : "partitions"} ${numbers(free)}\n`]),
    ...(limits.length === 0
      ? []
      : [`\n${table([["limit", "charged", "of", "in use"], ...limits.map(limitRow)])}`]),
  ];
  return parts.join("");
}

function limitRow({ quota, charged, limit }: FleetReport["limits"][number]): string[] {
  const use = limit === undefined ? ["-", "-"] : [String(limit), `${Math.round((100 * charged) / limit)} %`];
  return [quota, String(Math.round(charged)), ...use];
}

function numbers(partitions: readonly ReportedPartition[]): string {
  return partitions.length === 0 ? "-" : partitions.map(({ part }) => part).join(",");
}

function projectCount(partitions: readonly ReportedPartition[]): string {
  return String(partitions.reduce((sum, { projects }) => sum + projects, 0));
}

/** Below 0: how long a worker has been dead. */
function seconds(leaseLeftMs: number): string {
  return `${(leaseLeftMs / 1_000).toFixed(1)} s`;
}
