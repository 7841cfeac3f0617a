import { describe, expect, it } from "vitest";
import type { ClusterView } from "../../src/clusters/cluster.ts";
import type { ExecutionView } from "../../src/satellites/sdk/execution.ts";
import { SatelliteFeed } from "../../src/service/operate/satellite_feed.ts";

const execution = (id: string, given: Partial<ExecutionView> = {}): ExecutionView => ({
  id,
  project: "red",
  satellite: { namespace: "perigee", name: "call-webhook" },
  sla: "1h",
  status: "failed",
  createdWallMs: 1_000,
  updatedWallMs: 2_000,
  deadlineWallMs: 3_601_000,
  output: { secret: "text" },
  error: { code: "http_404", message: "text", retryable: false },
  retries: 1,
  ...given,
});

const cluster = (id: string, status: ClusterView["status"]): ClusterView => ({
  id,
  project: "red",
  status,
  sla: "1h",
  createdWallMs: 1_000,
  updatedWallMs: 2_000,
  deadlineWallMs: 3_601_000,
  error: null,
  members: [
    {
      identifier: "a",
      name: "A",
      uses: "satellite/perigee/call-webhook",
      needs: [],
      status: "completed",
      startedWallMs: 1_500,
      retries: 2,
      output: { secret: "text" },
      error: null,
    },
  ],
});

function feedOn(executions: readonly ExecutionView[], clusters: readonly ClusterView[]) {
  const read: string[] = [];
  const feed = new SatelliteFeed(
    { list: async () => ({ items: executions, hasMore: false }) },
    {
      list: async () => ({ items: clusters.map((one) => ({ ...one, members: [] })), hasMore: false }),
      cluster: async (_project, id) => {
        read.push(id);
        return clusters.find((one) => one.id === id) as ClusterView; // tests ask only for those
      },
    },
  );
  return { feed, read };
}

describe("what the page shows of satellites", () => {
  it("has states, times and codes, and no texts", async () => {
    const { feed } = feedOn([execution("e1")], [cluster("c1", "pending")]);
    const snapshot = await feed.snapshot("red");
    expect(snapshot["executions"]).toMatchObject([
      { execution_id: "e1", satellite: "call-webhook", status: "failed", retries: 1, error_code: "http_404" },
    ]);
    expect(snapshot["clusters"]).toMatchObject([
      { cluster_id: "c1", member_count: 1, members: [{ identifier: "a", status: "completed", retries: 2 }] },
    ]);
    expect(JSON.stringify(snapshot)).not.toContain("text");
  });

  it("leaves out executions that clusters made, which their graphs show", async () => {
    const member = { clusterId: "c1", identifier: "a" };
    const { feed } = feedOn([execution("e1", { member }), execution("e2")], []);
    expect((await feed.snapshot("red"))["executions"]).toMatchObject([{ execution_id: "e2" }]);
  });

  it("reads a cluster that is final once", async () => {
    const { feed, read } = feedOn([], [cluster("c1", "pending"), cluster("c2", "completed")]);
    await feed.snapshot("red");
    await feed.snapshot("red");
    expect(read).toEqual(["c1", "c2", "c1"]);
  });
});
