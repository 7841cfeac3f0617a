/**
 * What is taken as an execution and what is refused, and how executions are found again.
 */
import { describe, expect, it } from "vitest";
import { removeEndedJobs } from "../../src/jobs/job_retention.ts";
import { WORK_KINDS } from "../../src/log/work_kinds.ts";
import { openWorkLog } from "../../src/log/work_log.ts";
import type { ExecutionRequest } from "../../src/satellites/sdk/execution.ts";
import { z } from "../../src/schema.ts";
import { userMsSince } from "../cpu_time.ts";
import { CALLER, ExecutionWorld, requestOf, satellite, textsOf } from "./execution_world.ts";

const ID = "0b9d6a52-5df4-4a38-9b1c-54c9a4f7a001";
const hang = (): Promise<never> => new Promise(() => undefined);

async function refusal(work: Promise<unknown>): Promise<{ code: string; details: Record<string, unknown> }> {
  return work.then(
    () => ({ code: "nothing", details: {} }),
    (error: { code: string; details: Record<string, unknown> }) => error,
  );
}

describe("a submission", () => {
  it.each<[string, Partial<ExecutionRequest>, string[]]>([
    ["an invalid sla", { sla: "soon" }, ["sla"]],
    ["no time at all", { sla: "0h" }, ["sla"]],
    ["more than 30 days", { sla: "31d" }, ["sla"]],
    ["an invalid input and an invalid sla", { input: [] as never, sla: "" }, ["sla", "input"]],
    ["a config that is not JSON", { config: { at: new Date() as never } }, ["config"]],
    ["what the schemas refuse", { input: { text: 1 }, config: { url: "x" } }, ["input.text", "config.url"]],
    ["a place in a list", { input: { list: ["a", 1] } }, ["input.list[1]"]],
  ])("with %s is refused with the paths", async (_what, given, paths) => {
    const world = new ExecutionWorld();
    const input = z.looseObject({ text: z.string().optional(), list: z.array(z.string()).optional() });
    world.add({ ...satellite("strict", { run: hang }), input: input as never });
    const executions = await world.open();
    const { code, details } = await refusal(executions.submit(CALLER, requestOf("strict", given)));
    expect(code).toBe("invalid_request");
    expect((details["issues"] as { path: string }[]).map(({ path }) => path)).toEqual(paths);
  });

  it("is refused above 1 MiB, for satellites that do not exist, and once it is closed", async () => {
    const world = new ExecutionWorld();
    world.add(satellite("hang", { run: hang }));
    const executions = await world.open();
    const large = requestOf("hang", { input: { text: "x".repeat(1 << 20) } });
    expect((await refusal(executions.submit(CALLER, large))).code).toBe("too_large");
    expect((await refusal(executions.submit(CALLER, requestOf("none")))).code).toBe("not_found");
    await executions.close();
    expect((await refusal(executions.submit(CALLER, requestOf("hang")))).code).toBe("closed");
  });

  it("under an id that is taken is a conflict, and one without the form of an id is refused", async () => {
    const world = new ExecutionWorld();
    world.add(satellite("hang", { run: hang }));
    const executions = await world.open();
    const [first, second] = await Promise.allSettled([
      executions.submit(CALLER, requestOf("hang", { id: ID })),
      executions.submit(CALLER, requestOf("hang", { id: ID })),
    ]);
    expect(first.status).toBe("fulfilled");
    expect(second).toMatchObject({ status: "rejected", reason: { code: "conflict" } });
    expect((await refusal(executions.submit(CALLER, requestOf("hang", { id: "x" })))).code).toBe("usage");
    expect(executions.counts()).toEqual({ queued: 0, running: 1 });
  });

  it("is refused while too many are pending, of a project or of all, and taken when fewer are", async () => {
    const world = new ExecutionWorld({ bounds: { projectPending: 2, pending: 3 } });
    world.add(satellite("hang", { run: hang }));
    const executions = await world.open();
    const two = { ...CALLER, project: "two" };
    const first = await executions.submit(CALLER, requestOf("hang"));
    await executions.submit(CALLER, requestOf("hang"));
    const refused = await refusal(executions.submit(CALLER, requestOf("hang")));
    expect(refused).toMatchObject({ code: "too_many", details: { retryAfterSeconds: 30 } });
    await executions.submit(two, requestOf("hang"));
    expect((await refusal(executions.submit(two, requestOf("hang")))).code).toBe("too_many");
    await executions.cancel("one", first.id);
    await executions.submit(two, requestOf("hang"));
  });

  it("ends at the requested deadline when that is earlier than its sla", async () => {
    const world = new ExecutionWorld();
    world.add(satellite("hang", { run: hang }));
    const executions = await world.open();
    const deadlineWallMs = world.clock.wallMs() + 5_000;
    const { id } = await executions.submit(CALLER, requestOf("hang", { sla: "1h", deadlineWallMs }));
    await world.clock.advance(5_100);
    expect(await executions.execution("one", id)).toMatchObject({ status: "expired", deadlineWallMs });
  });

  it("keeps nothing of the input once it is final", async () => {
    const world = new ExecutionWorld();
    world.add(satellite("echo", { run: async () => ({ done: true }) }));
    const executions = await world.open();
    await executions.submit(CALLER, requestOf("echo", { input: { text: "canary" } }));
    await world.clock.advance(100);
    await executions.close();
    world.crash();
    const texts = await textsOf(await world.store.open());
    expect(texts.join()).toContain("done");
    expect(texts.join()).not.toContain("canary");
  });
});

describe("executions are found", () => {
  it("only by their own project", async () => {
    const world = new ExecutionWorld();
    world.add(satellite("hang", { run: hang }));
    const executions = await world.open();
    const { id } = await executions.submit(CALLER, requestOf("hang"));
    expect((await refusal(executions.execution("two", id))).code).toBe("not_found");
    expect((await refusal(executions.cancel("two", id))).code).toBe("not_found");
    expect((await refusal(executions.list("two", { after: id, limit: 1 }))).code).toBe("not_found");
    expect(await executions.execution("one", id)).toMatchObject({ status: "pending", phase: "running" });
  });

  it("in pages, newest first, of one satellite on request, shorter where outputs are large", async () => {
    const world = new ExecutionWorld();
    world.add(satellite("small", { run: hang }));
    world.add(satellite("large", { run: async () => ({ text: "x".repeat(1_000_000) }) }));
    const executions = await world.open();
    const ids: string[] = [];
    for (let index = 0; index < 40; index += 1)
      ids.unshift((await executions.submit(CALLER, requestOf(index % 2 === 0 ? "small" : "large"))).id);
    await world.clock.advance(1_000);
    const all: string[] = [];
    let pages = 0;
    for (let after: string | undefined; ; pages += 1) {
      const page = await executions.list("one", { limit: 100, ...(after === undefined ? {} : { after }) });
      all.push(...page.items.map(({ id }) => id));
      after = all.at(-1);
      if (!page.hasMore) break;
    }
    expect(all).toEqual(ids);
    expect(pages).toBeGreaterThanOrEqual(1);
    const small = { namespace: "perigee", name: "small" };
    const listed = await executions.list("one", { limit: 20, satellite: small });
    expect(listed.hasMore).toBe(false);
    expect(listed.items.map(({ status }) => status)).toEqual(Array(20).fill("pending"));
  });

  it("until they are as old as they are kept, from their end", async () => {
    const world = new ExecutionWorld();
    world.add(satellite("quick", { run: async () => ({}) }));
    world.add(satellite("hang", { run: hang }));
    const executions = await world.open();
    const quick = await executions.submit(CALLER, requestOf("quick"));
    const late = await executions.submit(CALLER, requestOf("hang", { sla: "12h" }));
    await world.clock.advance(86_400_000);
    await executions.close();
    world.crash();
    const store = await world.store.open();
    const log = await openWorkLog({ store, clock: world.clock });
    const oldestWallMs = world.clock.wallMs() - 86_400_000;
    await removeEndedJobs(log, [WORK_KINDS.delivery], oldestWallMs, async () => undefined);
    expect(await store.loggedTask(quick.id)).toBeDefined();
    await removeEndedJobs(log, [WORK_KINDS.execution], oldestWallMs, async () => undefined);
    expect(await store.loggedTask(quick.id)).toBeUndefined();
    expect(await store.loggedTask(late.id)).toBeDefined();
  });
});

it("requests with as many faults as secrets are refused in bounded time", async () => {
  const marked = z.string().meta({ "x-secret": true });
  const schema = z.strictObject({ numbers: z.array(z.strictObject({})), texts: z.array(marked) });
  const world = new ExecutionWorld();
  world.add(satellite("strict", { input: schema as never, run: hang }));
  const executions = await world.open();
  const input = {
    numbers: Array.from({ length: 60_000 }, () => 1),
    texts: Array.from({ length: 20_000 }, () => "secret://a"),
  };
  const before = process.cpuUsage();
  const refused = executions.submit(CALLER, requestOf("strict", { input }));
  await expect(refused).rejects.toMatchObject({ code: "invalid_request" });
  expect(userMsSince(before)).toBeLessThan(1_500);
});
