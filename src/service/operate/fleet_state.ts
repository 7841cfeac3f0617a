/**
 * The state of the fleet that a service is part of: in short at `/readyz`, which needs no key, whole at `GET /v0/operator/fleet` for a key with
 * the scope `admin`.
 */
import type { FastifyInstance } from "../http/fastify.ts";
import { timestamp } from "../shapes/timestamp.ts";

/** A worker that lives. */
export interface FleetMember {
  readonly name: string;
  readonly role: string;
  /** Of perigee. */
  readonly version: string;
  /** Gives its partitions back. */
  readonly isLeaving: boolean;
  readonly startedWallMs: number;
  readonly parts: readonly number[];
}

export interface FleetState {
  /** Which of the workers this process is. */
  readonly worker: string;
  /** Until its lease ends by its own clock, if it is not renewed; 0 or less: it answers nothing by itself. */
  readonly leaseLeftMs: number;
  readonly workers: readonly FleetMember[];
  /** Partitions that no worker has. */
  readonly free: readonly number[];
}

/** What `/readyz` says of it. */
export interface FleetCounts {
  readonly workers: number;
  readonly partitions: number;
  readonly free_partitions: number;
  /** Of the worker that answers. */
  readonly lease_ms: number;
}

export function countsOf({ workers, free, leaseLeftMs }: FleetState): FleetCounts {
  const owned = workers.reduce((sum, { parts }) => sum + parts.length, 0);
  const partitions = owned + free.length;
  return { workers: workers.length, partitions, free_partitions: free.length, lease_ms: leaseLeftMs };
}

export function registerFleetRoute(app: FastifyInstance, fleet: () => FleetState): void {
  app.get("/v0/operator/fleet", { config: { scope: "admin" }, schema: { hide: true } }, async () =>
    fleetBody(fleet()),
  );
}

/** As operators are sent it. */
export function fleetBody({ worker, leaseLeftMs, workers, free }: FleetState): object {
  return {
    worker,
    lease_ms: leaseLeftMs,
    workers: workers.map(({ name, role, version, isLeaving, startedWallMs, parts }) => ({
      ...{ name, role, version, state: isLeaving ? "leaving" : "working", partitions: parts },
      started_at: timestamp(startedWallMs),
    })),
    free_partitions: free,
  };
}
