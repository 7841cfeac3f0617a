/** What a run of a cluster prints where there is no terminal. */
import { describe, expect, it } from "vitest";
import { ClusterDisplay } from "../../src/cli/satellites/cluster_display.ts";
import type { ClusterView, MemberView } from "../../src/clusters/cluster.ts";

const BEGUN_MS = 1_000;

const member = (identifier: string, of: Partial<MemberView>): MemberView => ({
  identifier,
  name: identifier,
  uses: "satellite/perigee/embeddings",
  needs: [],
  status: "waiting",
  retries: 0,
  output: null,
  error: null,
  ...of,
});

/** The lines that are printed of these members, looked at once. */
function linesOf(...members: readonly MemberView[]): readonly string[] {
  const written: string[] = [];
  const stream = { isTTY: false, write: (text: string) => written.push(text) > 0 };
  const display = new ClusterDisplay(stream as unknown as NodeJS.WriteStream, BEGUN_MS);
  display.show({ members } as unknown as ClusterView, 9_000);
  return written.join("").trimEnd().split("\n");
}

describe("a run of a cluster without a terminal", () => {
  it("has a line for the beginning of a member that had ended when it was first seen", () => {
    expect(
      linesOf(member("a", { status: "completed", startedWallMs: 1_000, finishedWallMs: 3_000 })),
    ).toEqual(["a  running    0:00", "a  completed  0:02"]);
  });

  it("says nothing of the tries and elements of its end on the line of its beginning", () => {
    const counts = { pending: 0, completed: 1, failed: 1, cancelled: 0, expired: 0 };
    const error = { code: "failed", message: "no", retryable: false } as const;
    const of = {
      status: "failed",
      startedWallMs: 1_500,
      finishedWallMs: 2_500,
      retries: 2,
      counts,
      error,
    } as const;
    expect(linesOf(member("a", of))[0]).toBe("a  running    0:00");
  });

  it("leaves out the beginnings that another process has told", () => {
    expect(linesOf(member("a", { status: "completed", startedWallMs: 999, finishedWallMs: 3_000 }))).toEqual([
      "a  completed  0:02",
    ]);
  });

  it("says nothing of one that waits, and of a skipped one only that", () => {
    expect(linesOf(member("a", {}), member("b", { status: "skipped" }))).toEqual(["b  skipped"]);
  });
});
