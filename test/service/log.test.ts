import { type FastifyInstance, fastify } from "fastify";
import { describe, expect, it } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import { StatedError } from "../../src/service/http/errors.ts";
import { logFault, logRequests, logSatellite, logSettings } from "../../src/service/http/log.ts";
import { FakeClock } from "../../src/testing/index.ts";

const CANARY = "canary-7f3a";

async function world(routes: (app: FastifyInstance) => void, level: "info" | "error" = "info") {
  const clock = new FakeClock();
  let text = "";
  const write = (lines: string): void => {
    text += lines;
  };
  const app = fastify(logSettings({ clock, level, write }));
  logRequests(app);
  routes(app);
  await app.ready();
  return {
    app,
    lines: async () => {
      await clock.advance(0);
      return text
        .split("\n")
        .filter((line) => line !== "")
        .map((line) => JSON.parse(line) as Record<string, unknown>);
    },
    text: () => text,
  };
}

describe("the log", () => {
  it("has a line for each request, with its route and never its address", async () => {
    const { app, lines } = await world((routes) => {
      routes.get("/v0/infer/task/:id", async (request) => {
        request.caller = { keyId: "k1", project: "red", scopes: new Set(), isBeta: false };
        return {};
      });
    });
    await app.inject({ url: `/v0/infer/task/${CANARY}?key=${CANARY}`, headers: { "x-secret": CANARY } });
    expect(await lines()).toEqual([
      {
        level: "info",
        time: new Date(new FakeClock().wallMs()).toISOString(),
        event: "request",
        request_id: expect.any(String),
        method: "GET",
        route: "/v0/infer/task/:id",
        status: 200,
        ms: expect.any(Number),
        key_id: "k1",
        project: "red",
      },
    ]);
  });

  it("tells which satellite said something, in which attempt, and nothing of what it said", async () => {
    const { app, lines, text } = await world(() => undefined);
    const about = { project: "red", satellite: "satellite/red/step", attempt: 2 };
    logSatellite(app, { ...about, level: "warn", message: CANARY, executionId: "e1" });
    expect(await lines()).toMatchObject([
      { ...about, level: "warn", event: "satellite", execution_id: "e1" },
    ]);
    expect(text()).not.toContain(CANARY);
  });

  it("has the code of an error and its place in the code, and nothing of its text", async () => {
    const { app, lines, text } = await world((routes) => {
      routes.get("/ours", async () => {
        throw new PerigeeError("not_found", `no ${CANARY}`);
      });
      routes.post("/theirs", async () => ({}));
    });
    await app.inject({ url: "/ours" });
    const headers = { "content-type": "application/json" };
    await app.inject({ url: "/theirs", method: "POST", headers, payload: `{"a": ${CANARY}` });
    await app.inject({ url: `/${CANARY}` });
    logFault(app, new TypeError(`cannot read ${CANARY}`), "req_1");
    const found = await lines();
    expect(found.map(({ event, route, status, code }) => [event, route, status, code])).toEqual([
      ["request", "/ours", 500, "not_found"],
      ["request", "/theirs", 400, expect.stringMatching(/^\w+$/)],
      ["request", "none", 404, undefined],
      ["fault", undefined, undefined, "internal_error"],
    ]);
    expect(found.at(-1)).toMatchObject({ level: "error", error: "TypeError", request_id: "req_1" });
    expect(found.at(-1)?.["at"]).toEqual(expect.arrayContaining([expect.stringContaining("log.test.ts")]));
    expect(text()).not.toContain(CANARY);
  });

  it("has the code that a refusal states, which is not a fault of perigee", async () => {
    const { app, lines } = await world((routes) => {
      routes.get("/waiting", async () => {
        throw new StatedError(408, { code: "not_ready", message: CANARY });
      });
    });
    await app.inject({ url: "/waiting" });
    expect((await lines()).map(({ code }) => code)).toEqual(["not_ready"]);
  });

  it("leaves out what others log that is not allowed", async () => {
    const { app, lines, text } = await world(() => undefined);
    app.log.warn({ status: 1, prompt: CANARY, req: { url: CANARY }, err: new Error(CANARY) }, CANARY);
    app.log.info(`a message with ${CANARY}`);
    app.log.error(Object.assign(new Error(CANARY), { code: `not a code ${CANARY}`, name: CANARY.repeat(9) }));
    const found = await lines();
    expect(found.map(({ event }) => event)).toEqual(["note", "error"]);
    expect(found[0]).toMatchObject({ status: 1, error: "Error", code: "internal_error" });
    expect(text()).not.toContain(CANARY);
  });

  it("has only faults at the level error", async () => {
    const { app, lines } = await world((routes) => routes.get("/", async () => ({})), "error");
    await app.inject({ url: "/" });
    expect(await lines()).toEqual([]);
  });
});
