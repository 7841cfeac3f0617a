/** What endpoints receive, when, how often, and what a receiver can do to others. */
import { Webhook } from "standardwebhooks";
import { beforeEach, describe, expect, it } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import type { Endpoint, EventType } from "../../src/service/webhooks/webhook_records.ts";
import { textsOf } from "../satellites/execution_world.ts";
import { answer, openWebhookWorld, type WebhookWorld } from "./webhook_world.ts";

const ALL: readonly EventType[] = ["task.completed", "task.failed", "task.cancelled"];
const TASK = "0b9fcf28-1111-4222-8333-444455556666";
const DAY_MS = 86_400_000;

let world: WebhookWorld;

beforeEach(async () => {
  world = await openWebhookWorld();
});

function endpoint(url = "https://a.net/hook", events = ALL, project = "one"): Promise<Endpoint> {
  return world.webhooks.endpoints.create(project, { url, events, description: "" });
}

async function deliveries(id: string, project = "one") {
  return (await world.webhooks.deliveries.list(project, id, { limit: 100 })).items;
}

describe("a task's end", () => {
  it("is sent to the endpoints of its project, signed, without texts", async () => {
    const { secrets } = await endpoint();
    await endpoint("https://b.net/hook", ALL, "two");
    await world.finish(TASK);
    await world.clock.advance(0);
    expect(world.seen).toHaveLength(1);
    const [seen] = world.seen;
    expect(seen).toMatchObject({
      url: "https://a.net/hook",
      method: "POST",
      timeoutMs: 15_000,
      responseBytesMax: 65_536,
    });
    expect(JSON.parse(seen?.text ?? "")).toEqual({
      type: "task.completed",
      timestamp: "2026-01-01T00:00:01.000Z",
      data: {
        task_id: TASK,
        status: "completed",
        is_cancelled: false,
        total_items: 2,
        counts: { submitted: 0, completed: 2, failed: 0, expired: 0, cancelled: 0 },
        usage: { input_tokens: 7, output_tokens: 9 },
        created_at: "2026-01-01T00:00:00.000Z",
      },
    });
    // Checked by hand: the package compares the timestamp with the machine's clock.
    const {
      "webhook-id": id = "",
      "webhook-timestamp": time,
      "webhook-signature": signature,
    } = seen?.headers ?? {};
    const expected = new Webhook(secrets[0]?.text ?? "").sign(
      id,
      new Date(Number(time) * 1_000),
      seen?.text ?? "",
    );
    expect(signature).toBe(expected);
  });

  it("is sent once, and once more when failed items of the task were run again", async () => {
    await endpoint();
    for (const retries of [0, 0, 1, 1]) await world.finish(TASK, { retries });
    await world.clock.advance(0);
    const id = `msg_${TASK.replaceAll("-", "")}_finished`;
    expect(world.seen.map((one) => one.id)).toEqual([id, `${id}_1`]);
  });

  it("is sent by its kind to those who want it", async () => {
    await endpoint("https://failed.net/", ["task.failed"]);
    await endpoint("https://cancelled.net/", ["task.cancelled"]);
    await world.finish("1-1", { status: "failed" }, "failed");
    await world.finish("1-2", { isCancelled: true });
    await world.finish("1-3");
    await world.clock.advance(0);
    const told = world.seen.map(({ url, text }) => [url, JSON.parse(text).type]);
    expect(told).toEqual([
      ["https://failed.net/", "task.failed"],
      ["https://cancelled.net/", "task.cancelled"],
    ]);
  });

  it("is delivered once though it is reported again, also after a restart", async () => {
    const { id } = await endpoint();
    await Promise.all([world.finish(TASK), world.finish(TASK)]);
    await world.clock.advance(0);
    await world.restart();
    await world.finish(TASK);
    await world.clock.advance(DAY_MS);
    expect(world.seen).toHaveLength(1);
    expect(await deliveries(id)).toMatchObject([{ status: "delivered", attempts: 1, lastStatus: 200 }]);
  });

  it("is durable before it is sent, and waits for room on the disk", async () => {
    await endpoint();
    const commitLog = world.store.commitLog.bind(world.store);
    let isFull = true;
    world.store.commitLog = async (commit) => {
      if (isFull) throw new PerigeeError("disk_full", "no room");
      await commitLog(commit);
    };
    const told = world.finish(TASK);
    await world.clock.advance(60_000);
    expect(world.seen).toEqual([]);
    isFull = false;
    await world.clock.runUntilSettled(told);
    await world.clock.advance(0);
    expect(world.seen).toHaveLength(1);
  });

  it("of a task that was removed meanwhile is sent to nobody", async () => {
    await endpoint();
    await world.tell({ kind: "completed", project: "one", taskId: "removed" });
    await world.clock.advance(0);
    expect(world.seen).toEqual([]);
  });
});

describe("a delivery that fails", () => {
  it("is repeated after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h and 10 h under one id, and then given up", async () => {
    const { id } = await endpoint();
    world.receiver = () => answer(500);
    await world.finish(TASK);
    await world.clock.advance(5 * DAY_MS);
    const waits = world.seen.slice(1).map(({ atMs }, index) => atMs - (world.seen[index]?.atMs ?? 0));
    const schedule = [5, 300, 1_800, 7_200, 18_000, 36_000, 36_000].map((seconds) => seconds * 1_000);
    expect(waits).toHaveLength(schedule.length);
    for (const [index, ms] of schedule.entries()) {
      expect(waits[index]).toBeGreaterThanOrEqual(ms);
      expect(waits[index]).toBeLessThanOrEqual(ms * 1.1 + 1);
    }
    expect(new Set(world.seen.map((seen) => seen.id)).size).toBe(1);
    expect(new Set(world.seen.map((seen) => seen.headers["webhook-timestamp"])).size).toBe(8);
    expect(await deliveries(id)).toMatchObject([{ status: "failed", attempts: 8, lastStatus: 500 }]);
  });

  it("is repeated later when the receiver asks for that, and not sooner when it asks for less", async () => {
    await endpoint();
    world.receiver = () => answer(503, { "retry-after": world.seen.length === 1 ? "3600" : "1" });
    await world.finish(TASK);
    await world.clock.advance(3_599_000);
    expect(world.seen).toHaveLength(1);
    await world.clock.advance(1_000);
    expect(world.seen).toHaveLength(2);
    await world.clock.advance(299_000);
    expect(world.seen).toHaveLength(2);
  });

  it("is repeated after a day at the latest, and on its schedule when the receiver does not ask for a valid wait", async () => {
    const { id } = await endpoint();
    for (const [retryAfter, leastMs] of [
      ["9".repeat(18), DAY_MS],
      ["Fri, 31 Dec 9999 23:59:59 GMT", DAY_MS],
      ["-5", 5_000],
      ["1e3", 5_000],
      ["", 5_000],
      ["60, 120", 5_000],
      ["Wed, 21 Oct 2015 07:28:00 GMT", 5_000],
    ] as const) {
      world.receiver = () => answer(503, { "retry-after": retryAfter });
      await world.finish(`1-${retryAfter}`);
      await world.clock.advance(10);
      const [{ nextWallMs = 0 } = {}] = await deliveries(id);
      const waitMs = nextWallMs - world.clock.wallMs() + 10;
      expect([retryAfter, waitMs >= leastMs && waitMs <= 1.1 * leastMs + 20]).toEqual([retryAfter, true]);
    }
  });

  it("goes on in the next process, under its id, at its time", async () => {
    await endpoint();
    world.receiver = () => answer(500);
    await world.finish(TASK);
    await world.clock.advance(10_000);
    expect(world.seen).toHaveLength(2);
    await world.restart();
    await world.clock.advance(280_000);
    expect(world.seen).toHaveLength(2);
    world.receiver = () => answer(204);
    await world.clock.advance(60_000);
    expect(world.seen.map((seen) => seen.id)).toEqual(Array(3).fill(world.seen[0]?.id));
    await world.clock.advance(DAY_MS);
    expect(world.seen).toHaveLength(3);
  });

  it("that a closing process cut off is made again by the next one, and does not count as an attempt", async () => {
    const { id } = await endpoint();
    world.receiver = () => new Promise(() => undefined);
    await world.finish(TASK);
    await world.clock.advance(0);
    world.receiver = () => answer(200);
    await world.restart();
    await world.clock.advance(1);
    expect(world.seen).toHaveLength(2);
    expect(await deliveries(id)).toMatchObject([{ status: "delivered", attempts: 1 }]);
  });

  it("is not sent again because the disk has no space for its outcome, which is stored once there is", async () => {
    const { id } = await endpoint();
    await world.finish(TASK);
    const commitLog = world.store.commitLog.bind(world.store);
    let failures = 3;
    world.store.commitLog = async (commit) => {
      if (failures-- > 0) throw new PerigeeError("disk_full", "no room");
      await commitLog(commit);
    };
    await world.clock.advance(60_000);
    expect(world.seen).toHaveLength(1);
    expect(await deliveries(id)).toMatchObject([{ status: "delivered", attempts: 1 }]);
  });

  it("is sent again by the next process when its outcome could not be stored", async () => {
    const { id } = await endpoint();
    const commitLog = world.store.commitLog.bind(world.store);
    world.receiver = () => {
      world.store.commitLog = () => Promise.reject(new PerigeeError("disk_full", "no room"));
      return answer(200);
    };
    await world.finish(TASK);
    await world.clock.advance(60_000);
    world.store.commitLog = commitLog;
    world.receiver = () => answer(200);
    await world.clock.runUntilSettled(world.restart());
    await world.clock.advance(60_000);
    expect(world.seen.map((seen) => seen.id)).toEqual(Array(2).fill(world.seen[0]?.id));
    expect(await deliveries(id)).toMatchObject([{ status: "delivered", attempts: 1 }]);
  });

  it("says while it waits how often it was tried, with which results, and when it is next", async () => {
    const { id } = await endpoint();
    world.receiver = () => answer(503);
    await world.finish(TASK);
    await world.clock.advance(1_000);
    const waiting = { status: "waiting", attempts: 1, lastStatus: 503 };
    expect(await deliveries(id)).toMatchObject([waiting]);
    const [{ nextWallMs = 0 } = {}] = await deliveries(id);
    expect(nextWallMs - world.clock.wallMs()).toBeGreaterThan(3_000);
    world.receiver = () => ({ ok: false, failure: "timeout", message: "late" });
    await world.clock.advance(9_000);
    const [late] = await deliveries(id);
    expect(late).toMatchObject({ attempts: 2, lastError: "timeout" });
    expect(late).not.toHaveProperty("lastStatus");
  });

  it("that an earlier version has stored goes on, under its id, at its time", async () => {
    const { id: endpointId } = await endpoint();
    const wallMs = world.clock.wallMs();
    const base = { id: `${endpointId}.msg_1`, project: "one", parent: endpointId, createdWallMs: wallMs };
    const nextWallMs = wallMs + 300_000;
    const stored = { messageId: "msg_1", type: "task.completed", status: "waiting", attempts: 2, nextWallMs };
    const payload = new TextEncoder().encode('{"old":true}');
    const body = JSON.stringify({ ...stored, lastStatus: 500 });
    await world.store.change([
      { kind: "put", record: { ...base, collection: "webhook_delivery", body, payload } },
      { kind: "put", record: { ...base, collection: "webhook_due", body: String(nextWallMs) } },
    ]);
    await world.restart();
    expect(await deliveries(endpointId)).toMatchObject([{ status: "waiting", attempts: 2, lastStatus: 500 }]);
    await world.clock.advance(299_000);
    expect(world.seen).toEqual([]);
    await world.clock.advance(2_000);
    expect(world.seen).toMatchObject([{ id: "msg_1", text: '{"old":true}', url: "https://a.net/hook" }]);
    expect(await deliveries(endpointId)).toMatchObject([{ status: "delivered", attempts: 3 }]);
  });
});

describe("an endpoint", () => {
  it("that answers 410 gets nothing more", async () => {
    const { id } = await endpoint();
    world.receiver = () => answer(410);
    await world.finish("1-1");
    await world.clock.advance(0);
    await world.finish("1-2");
    await world.clock.advance(DAY_MS);
    expect(world.seen).toHaveLength(1);
    expect((await world.webhooks.endpoints.get("one", id)).disabled).toBe("gone");
    expect(await deliveries(id)).toMatchObject([{ status: "failed", lastStatus: 410 }]);
  });

  it("that fails for five days is disabled, what waits ends, and enabling it starts again", async () => {
    const { id } = await endpoint();
    world.receiver = () => answer(500);
    for (let day = 0; day < 6; day += 1) {
      await world.finish(`1-${day}`);
      await world.clock.advance(DAY_MS);
    }
    expect((await world.webhooks.endpoints.get("one", id)).disabled).toBe("failing");
    const count = world.seen.length;
    await world.finish("1-9");
    await world.clock.advance(5 * DAY_MS);
    expect(world.seen).toHaveLength(count);
    expect((await deliveries(id)).filter(({ status }) => status === "waiting")).toEqual([]);
    await world.webhooks.endpoints.change("one", id, { isEnabled: true });
    await world.finish("2-1");
    await world.clock.advance(60_000);
    expect((await world.webhooks.endpoints.get("one", id)).disabled).toBeNull();
    expect(world.seen.length).toBeGreaterThan(count);
  });

  it("that takes one of many is not failing", async () => {
    const { id } = await endpoint();
    for (let day = 0; day < 8; day += 1) {
      world.receiver = () => answer(day % 3 === 0 ? 200 : 500);
      await world.finish(`1-${day}`);
      await world.clock.advance(DAY_MS);
    }
    expect((await world.webhooks.endpoints.get("one", id)).disabled).toBeNull();
  });

  it("is signed to by two secrets for a day after they were rotated", async () => {
    const { id, secrets } = await endpoint();
    const { secrets: rotated } = await world.webhooks.endpoints.rotate("one", id);
    expect(rotated[0]?.text).not.toBe(secrets[0]?.text);
    await world.finish("1-1");
    await world.clock.advance(0);
    const signaturesOf = (index: number) => world.seen[index]?.headers["webhook-signature"]?.split(" ");
    const [first] = world.seen;
    const sign = (text: string) =>
      new Webhook(text).sign(first?.id ?? "", new Date(1_767_225_600_000), first?.text ?? "");
    expect(signaturesOf(0)).toEqual([rotated[0], secrets[0]].map((secret) => sign(secret?.text ?? "")));
    await world.clock.advance(DAY_MS);
    await world.finish("1-2");
    await world.clock.advance(0);
    expect(signaturesOf(1)).toHaveLength(1);
    await world.webhooks.endpoints.rotate("one", id);
    expect((await world.webhooks.endpoints.rotate("one", id)).secrets).toHaveLength(2);
  });

  it("that is slow does not delay another, and gets eight at once", async () => {
    const slow = await endpoint("https://slow.net/");
    await endpoint("https://fast.net/");
    world.receiver = ({ url }) => (url.includes("slow") ? new Promise(() => undefined) : answer(200));
    for (let task = 0; task < 50; task += 1) await world.finish(`1-${task}`);
    await world.clock.advance(0);
    const told = (name: string) => world.seen.filter(({ url }) => url.includes(name)).length;
    expect([told("slow"), told("fast")]).toEqual([8, 50]);
    await world.webhooks.deliveries.removeEndpoint("one", slow.id);
  });

  for (const [when, hung, atOnce] of [
    ["as they are accepted", { hang: 6, slow: 4 }, 11],
    ["after a restart", { hang: 8, slow: 3 }, 12],
  ] as const)
    it(`that hangs takes no place of the others of its host, whose bound holds (${when})`, async () => {
      const paths = ["hang", "slow", "ok"];
      const ids = await Promise.all(paths.map(async (path) => (await endpoint(`https://a.net/${path}`)).id));
      const never = new Promise<never>(() => undefined);
      let underWay = 0;
      let underWayMax = 0;
      const begun = { hang: 0, slow: 0, ok: 0 };
      const hangs = async ({ url }: { readonly url: string }) => {
        const path = url.slice(url.lastIndexOf("/") + 1) as keyof typeof begun;
        begun[path] += 1;
        underWay += 1;
        underWayMax = Math.max(underWayMax, underWay);
        await (path === "ok" ? world.clock.sleep(1) : never);
        underWay -= 1;
        return answer(200);
      };
      world.receiver = when === "after a restart" ? () => never : hangs;
      for (let task = 0; task < 30; task += 1) await world.finish(`1-${task}`);
      await world.clock.advance(0);
      if (when === "after a restart") {
        world.receiver = hangs;
        await world.restart();
      }
      await world.clock.advance(100);
      expect(begun).toEqual({ ...hung, ok: 30 });
      expect(underWayMax).toBe(atOnce);
      const ended = await Promise.all(ids.map((id) => deliveries(id)));
      expect(ended.map((all) => all.filter(({ status }) => status === "delivered").length)).toEqual([
        0, 0, 30,
      ]);
    });

  it("that was removed gets nothing more, and leaves nothing", async () => {
    const { id } = await endpoint();
    world.receiver = () => answer(500);
    await world.finish(TASK);
    await world.clock.advance(0);
    await world.webhooks.deliveries.removeEndpoint("one", id);
    await world.clock.advance(DAY_MS);
    expect(world.seen).toHaveLength(1);
    await expect(world.webhooks.endpoints.get("one", id)).rejects.toMatchObject({ code: "not_found" });
    expect(await world.store.records("one", { collection: "webhook_endpoint", limit: 10 })).toEqual([]);
    expect(await textsOf(world.store)).toEqual([]);
  });

  it("is tried by a test message once, also while it is disabled", async () => {
    const { id } = await endpoint();
    await world.webhooks.endpoints.change("one", id, { isEnabled: false });
    world.receiver = () => answer(500);
    const delivery = await world.clock.runUntilSettled(world.webhooks.test("one", id));
    expect(delivery).toMatchObject({ type: "webhook.test", status: "failed", attempts: 1, lastStatus: 500 });
    expect(JSON.parse(world.seen[0]?.text ?? "")).toMatchObject({
      type: "webhook.test",
      data: { webhook_id: id },
    });
    await world.clock.advance(DAY_MS);
    expect(world.seen).toHaveLength(1);
  });

  it("may not lead inwards, and there are at most 20 in a project", async () => {
    await expect(endpoint("https://blocked.net/")).rejects.toMatchObject({ code: "blocked_destination" });
    const { id } = await endpoint();
    await expect(
      world.webhooks.endpoints.change("one", id, { url: "https://blocked.net/" }),
    ).rejects.toMatchObject({ code: "blocked_destination" });
    await expect(world.webhooks.endpoints.get("two", id)).rejects.toMatchObject({ code: "not_found" });
    const more = await Promise.allSettled(Array.from({ length: 30 }, () => endpoint()));
    expect(more.filter(({ status }) => status === "fulfilled")).toHaveLength(19);
  });

  it("with 10,000 that wait shows those beyond as failed", async () => {
    const { id } = await endpoint();
    world.receiver = () => answer(500);
    for (let task = 0; task < 10_001; task += 1) await world.finish(`1-${task}`);
    const [newest] = (await world.webhooks.deliveries.list("one", id, { limit: 1 })).items;
    expect(newest).toMatchObject({ status: "failed", lastError: "too_many_waiting", attempts: 0 });
  });
});

describe("deliveries", () => {
  it("begin in the next process once the service stops, and no caller waits for a test message", async () => {
    const { id } = await endpoint();
    world.webhooks.stop();
    await world.finish("1-1");
    const tried = await world.clock.runUntilSettled(world.webhooks.test("one", id));
    expect(tried).toMatchObject({ type: "webhook.test", status: "waiting", attempts: 0 });
    await world.clock.advance(30_000);
    expect(world.seen).toEqual([]);
    await world.restart();
    await world.clock.advance(0);
    expect(world.seen).toHaveLength(2);
  });

  it("are listed newest first, in pages, only of their own endpoint", async () => {
    const { id } = await endpoint();
    const other = await endpoint("https://b.net/");
    for (const task of ["1-1", "1-2", "1-3"]) await world.finish(task);
    await world.clock.advance(0);
    const first = await world.webhooks.deliveries.list("one", id, { limit: 2 });
    expect(first.items.map(({ messageId }) => messageId)).toEqual(["msg_13_finished", "msg_12_finished"]);
    expect(first.hasMore).toBe(true);
    const after = first.items[1]?.id ?? "";
    const second = await world.webhooks.deliveries.list("one", id, { limit: 2, after });
    expect(second).toMatchObject({ items: [{ messageId: "msg_11_finished" }], hasMore: false });
    await expect(world.webhooks.deliveries.list("one", other.id, { limit: 2, after })).rejects.toMatchObject({
      code: "not_found",
    });
  });
});
