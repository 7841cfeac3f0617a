/** Satellites that run in a process of their own, called over signed HTTP. */

import { createServer as createHttpServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { describeRemote, remoteSatellite } from "../../src/satellites/orbit/remote.ts";
import { newOrbitSecret, signOrbit } from "../../src/satellites/orbit/signature.ts";
import { defineSatellite } from "../../src/satellites/sdk/define.ts";
import { describeSatellite, descriptionHash } from "../../src/satellites/sdk/description.ts";
import { SatelliteError } from "../../src/satellites/sdk/satellite_error.ts";
import { z } from "../../src/schema.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { attempt, host, localHttp } from "./orbit_world.ts";

const input = z.strictObject({ text: z.string().regex(/^[a-z ]*$/) });
const shout = defineSatellite({
  ...{ name: "shout", description: "Says it louder.", input },
  config: z.strictObject({ mark: z.string().default("!") }),
  run: async ({ input, config, executionId, project, attempt, progress, log }) => {
    progress(1, 2);
    log("info", "half way");
    progress(2, 2);
    return { said: input.text.toUpperCase() + config.mark, executionId, project, attempt };
  },
});

it("returns what the satellite returns, with its defaults, its progress and its log", async () => {
  const hosted = await host([shout]);
  const { call, progress, logs } = attempt({ input: { text: "hi" }, attempt: 3 });
  const output = await hosted.remote(shout).run(call);
  expect(output).toEqual({ said: "HI!", executionId: call.executionId, project: "acme", attempt: 3 });
  expect(progress).toEqual([
    [1, 2],
    [2, 2],
  ]);
  expect(logs).toEqual(["info half way"]);
});

it("says by a description what it is, as its author wrote it", async () => {
  const { url, secret } = await host([shout]);
  const found = await describeRemote(localHttp, systemClock, { url, secret }, "shout");
  expect(found).toEqual(describeSatellite(shout));
  await expect(describeRemote(localHttp, systemClock, { url, secret }, "other")).rejects.toMatchObject({
    failure: "permanent",
    code: "not_hosted",
  });
});

it("is checked by the schema of its author, where patterns count, and fails for good", async () => {
  const remote = (await host([shout])).remote(shout);
  expect(await remote.input["~standard"].validate({ text: "NO" })).toEqual({ value: { text: "NO" } });
  await expect(remote.run(attempt({ input: { text: "NO" } }).call)).rejects.toMatchObject({
    failure: "permanent",
    code: "invalid_input",
    message: expect.stringMatching(/^input\.text: /),
  });
});

it("fails in the classes of SatelliteError, and without the text of other errors", async () => {
  const failing = defineSatellite({
    ...{ name: "failing", input: z.object({ how: z.string() }) },
    run: async ({ input }) => {
      if (input.how === "later")
        throw new SatelliteError("refused", "busy", "later", { retryAfterMs: 1_500 });
      if (input.how === "copy")
        throw Object.assign(new Error("no"), { name: "SatelliteError", failure: "permanent", code: "x_1" });
      throw new Error("the password is hunter2");
    },
  });
  const hosted = await host([failing]);
  const run = (how: string) => hosted.remote(failing).run(attempt({ input: { how } }).call);
  await expect(run("later")).rejects.toMatchObject({ failure: "refused", code: "busy", retryAfterMs: 1_500 });
  await expect(run("copy")).rejects.toMatchObject({ failure: "permanent", code: "x_1", message: "no" });
  const error = await run("else").catch((one: unknown) => one);
  expect(error).toMatchObject({
    failure: "ambiguous",
    code: "satellite_error",
    message: "the satellite failed",
  });
  expect(hosted.lines.join()).toMatch(/satellite failing: Error: the password/);
});

describe("secrets on a host", () => {
  const config = { token: "hunter2-hunter2", header: "Bearer abcdefgh" };
  const leaky = defineSatellite({
    ...{ name: "leaky", input: z.object({ how: z.string() }), config: z.record(z.string(), z.string()) },
    run: async ({ input, log }) => {
      log("info", `signed in with ${config.token}`);
      const message = `401 for hunter2-hunter2 and abcdefgh, ${btoa(config.token)}`;
      if (input.how === "refuse") throw new SatelliteError("permanent", "denied", message);
      throw new Error(message);
    },
  });

  it.each([
    [
      "that the engine names are taken out of thrown errors, messages and log lines",
      ["hunter2-hunter2", "abcdefgh"],
    ],
    ["of an engine that names none: all texts of the config are taken out", undefined],
  ])("%s", async (_what, secretValues) => {
    const hosted = await host([leaky]);
    const run = (how: string) => {
      const heard = attempt({ input: { how }, config, secretValues } as object);
      return {
        ...heard,
        error: hosted
          .remote(leaky)
          .run(heard.call)
          .catch((one: Error) => one),
      };
    };
    expect(await run("throw").error).toMatchObject({ code: "satellite_error" });
    const refused = run("refuse");
    expect(await refused.error).toMatchObject({
      message: "401 for [redacted] and [redacted], [redacted]",
    });
    expect(refused.logs).toEqual(["info signed in with [redacted]"]);
    const [line = ""] = hosted.lines;
    expect(line).toMatch(/^satellite leaky: Error: 401 for \[redacted\] and \[redacted\], /);
    for (const secret of ["hunter2", "abcdefgh", btoa(config.token).slice(0, 12)])
      expect(hosted.lines.join()).not.toContain(secret);
  });
});

describe("the output of a hosted satellite", () => {
  const output = z.object({ text: z.string().regex(/^[A-Z]+$/), n: z.number() });
  const says = (given: object) =>
    defineSatellite({ name: "says", input: z.object({}), output, run: async () => given as never });

  it("is checked by the host's own schema", async () => {
    const wrong = says({ text: "no", n: 1 });
    const hosted = await host([wrong]);
    await expect(hosted.remote(wrong).run(attempt().call)).rejects.toMatchObject({
      ...{ failure: "permanent", code: "invalid_output" },
      message: expect.stringMatching(/^output\.text: /),
    });
  });

  it("is checked by the engine against the schema that was registered", async () => {
    const { output: _output, ...unchecked } = says({ text: "YES", n: "1" });
    const hosted = await host([unchecked]);
    const running = hosted.remote(says({})).run(attempt().call);
    await expect(running).rejects.toMatchObject({
      ...{ failure: "permanent", code: "invalid_output", message: "output.n: must be number" },
    });
    const { output: _other, ...right } = says({ text: "YES", n: 1 });
    const fine = await host([right]);
    expect(await fine.remote(says({})).run(attempt().call)).toEqual({ text: "YES", n: 1 });
  });
});

it("finds what it noted in the attempt after, and knows when a note is durable", async () => {
  const walker = defineSatellite({
    ...{ name: "walker", input: z.object({ big: z.boolean().default(false) }) },
    run: async ({ notes, input }) => {
      const steps = Number(notes.get("steps") ?? 0) + 1;
      await notes.set("steps", steps);
      if (input.big) await notes.set("more", "x".repeat(70_000));
      if (steps < 2) throw new SatelliteError("refused", "again", "again");
      return { steps };
    },
  });
  const hosted = await host([walker]);
  const { call, notes } = attempt();
  await expect(hosted.remote(walker).run(call)).rejects.toMatchObject({ code: "again" });
  expect(notes.get("hosted")).toEqual({ steps: 1 });
  expect(await hosted.remote(walker).run(call)).toEqual({ steps: 2 });
  await expect(hosted.remote(walker).run(attempt({ input: { big: true } }).call)).rejects.toMatchObject({
    code: "satellite_error",
  });
});

it("is aborted when the engine disconnects, at the deadline, and by the next attempt", async () => {
  const reasons: string[] = [];
  const slow = defineSatellite({
    ...{ name: "slow", input: z.object({}) },
    run: ({ signal, progress }) =>
      new Promise<object>((_resolve, reject) => {
        progress(0);
        signal.addEventListener("abort", () => {
          reasons.push(String((signal.reason as Error).message));
          reject(signal.reason);
        });
      }),
  });
  const hosted = await host([slow]);
  const stop = new AbortController();
  const { call, progress } = attempt({ signal: stop.signal });
  const running = hosted
    .remote(slow)
    .run(call)
    .catch((error: unknown) => error);
  await expect.poll(() => progress.length).toBe(1);
  const second = hosted.remote(slow).run({ ...call, signal: new AbortController().signal });
  await expect(second).rejects.toMatchObject({ failure: "refused", code: "host_busy", retryAfterMs: 1_000 });
  expect(await running).toMatchObject({ failure: "ambiguous" });
  expect(reasons).toEqual(["another attempt has begun"]);
  const gone = hosted.remote(slow).run(call);
  setTimeout(() => stop.abort(new Error("cancelled")), 100);
  await expect(gone).rejects.toThrow("cancelled");
  await expect.poll(() => reasons.length).toBe(2);
  expect(reasons[1]).toBe("the connection was closed");
  const late = attempt({ deadlineWallMs: systemClock.wallMs() + 300 }).call;
  await expect(hosted.remote(slow).run(late)).rejects.toThrow();
  await expect.poll(() => reasons.length).toBe(3);
});

it("answers no request that is unsigned, signed otherwise, old, changed, or repeated", async () => {
  const { url, secret } = await host([shout]);
  const body = Buffer.from(JSON.stringify({ type: "describe", satellite: "shout" }));
  const post = async (headers: Record<string, string>, sent: Buffer = body) =>
    (await fetch(url, { method: "POST", body: sent, headers })).status;
  const now = systemClock.wallMs();
  const signed = signOrbit({ id: "one", wallMs: now, body }, secret);
  expect(await post({})).toBe(401);
  expect(await post(signOrbit({ id: "two", wallMs: now, body }, newOrbitSecret()))).toBe(401);
  expect(await post(signOrbit({ id: "three", wallMs: now - 301_000, body }, secret))).toBe(401);
  expect(await post(signOrbit({ id: "four", wallMs: now + 302_000, body }, secret))).toBe(401);
  expect(await post({ ...signed, "webhook-id": "five" })).toBe(401);
  expect(await post(signed, Buffer.from(`${body} `))).toBe(401);
  expect(await post(signed)).toBe(200);
  expect(await post(signed)).toBe(409);
  expect(await post({ ...signed, "webhook-signature": `v1,AAAA ${signed["webhook-signature"]}` })).toBe(409);
  expect((await fetch(url)).status).toBe(405);
  expect((await fetch(`${url}/healthz`)).status).toBe(200);
});

it("answers a secret that is for another satellite as if no satellite had that name", async () => {
  const other = newOrbitSecret();
  const quiet = defineSatellite({ name: "quiet", input: z.object({}), run: async () => ({}) });
  const { url } = await host([shout, quiet], { secrets: [{ secret: other, satellite: "quiet" }] });
  const endpoint = { url, secret: other };
  expect((await describeRemote(localHttp, systemClock, endpoint, "quiet")).name).toBe("quiet");
  await expect(describeRemote(localHttp, systemClock, endpoint, "shout")).rejects.toMatchObject({
    code: "not_hosted",
  });
});

it("does not run when it is not the one that was verified", async () => {
  const hosted = await host([shout]);
  let changes = 0;
  const onChanged = (): void => {
    changes += 1;
  };
  const hash = descriptionHash(describeSatellite(shout));
  const same = hosted.remote(shout, { verifiedHash: hash, onChanged });
  expect(await same.run(attempt({ input: { text: "" } }).call)).toMatchObject({ said: "!" });
  const changed = hosted.remote(shout, { verifiedHash: hash.replace(/^./, "x"), onChanged });
  await expect(changed.run(attempt({ input: { text: "" } }).call)).rejects.toMatchObject({
    failure: "permanent",
    code: "satellite_changed",
  });
  expect(changes).toBe(1);
});

it("has no files and no tasks, and takes no more attempts at once than it may", async () => {
  const reader = defineSatellite({
    ...{ name: "reader", input: z.object({}) },
    run: async ({ files }) => ({ found: (await files.file("acme", "x")).id }),
  });
  const hosted = await host([reader]);
  await expect(hosted.remote(reader).run(attempt().call)).rejects.toMatchObject({ code: "not_available" });
  const full = await host([reader], { runsMax: 0 });
  await expect(full.remote(reader).run(attempt().call)).rejects.toMatchObject({ failure: "refused" });
});

it("an answer that breaks off is ambiguous, and one without an end is bounded", async () => {
  const answers = {
    broken: '{"type":"progress","done":1}\n{"type":"out',
    endless: null,
    odd: '{"type":"new"}\nnonsense\n{"__proto__":{"type":"output"}}\n{"type":"output","output":{"a":1}}\n',
  } as const;
  let kind: keyof typeof answers = "broken";
  const server = createHttpServer((_request, response) => {
    response.writeHead(200);
    const text = answers[kind];
    if (text !== null) return void response.end(text);
    const pump = (): void => {
      while (!response.destroyed && response.write("x".repeat(65_536)));
    };
    response.on("drain", pump);
    pump();
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const endpoint = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    secret: newOrbitSecret(),
  };
  const run = (given: keyof typeof answers) => {
    kind = given;
    return remoteSatellite({ endpoint, described: describeSatellite(shout) }).run(attempt().call);
  };
  await expect(run("broken")).rejects.toMatchObject({ failure: "ambiguous", code: "connection_lost" });
  await expect(run("endless")).rejects.toMatchObject({ failure: "permanent", code: "output_too_large" });
  expect(await run("odd")).toEqual({ a: 1 });
});

it("a host that nobody reaches has done nothing; one that is not there any more is known by its status", async () => {
  const unused = createServer();
  await new Promise<void>((resolve) => unused.listen(0, "127.0.0.1", resolve));
  const { port } = unused.address() as AddressInfo;
  await new Promise((resolve) => unused.close(resolve));
  const described = describeSatellite(shout);
  const at = (url: string) => remoteSatellite({ endpoint: { url, secret: newOrbitSecret() }, described });
  await expect(at(`http://127.0.0.1:${port}/`).run(attempt().call)).rejects.toMatchObject({
    failure: "not_sent",
  });
  await expect(at("http://10.0.0.1/").run(attempt().call)).rejects.toMatchObject({
    failure: "permanent",
    code: "blocked_destination",
  });
  const { url } = await host([shout]);
  await expect(at(url).run(attempt().call)).rejects.toMatchObject({ code: "host_unauthorized" });
});

it("a host that is silent for 45 s is given up, one that shows that it is alive is not", async () => {
  const clock = new FakeClock({ wallMs: systemClock.wallMs() });
  const sent: ServerResponse[] = [];
  const server = createHttpServer((_request, response) => void sent.push(response.writeHead(200)));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  const endpoint = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    secret: newOrbitSecret(),
  };
  const { call, progress } = attempt({ clock });
  const running = remoteSatellite({ endpoint, described: describeSatellite(shout) }).run(call);
  const ended = running.catch((error: unknown) => error);
  await expect.poll(() => sent.length).toBe(1);
  await clock.advance(44_000);
  sent[0]?.write('{"type":"progress","done":1}\n');
  await expect.poll(() => progress.length).toBe(1);
  await clock.advance(44_000);
  sent[0]?.write("\n{");
  await clock.advance(500);
  await clock.advance(46_000);
  expect(await ended).toMatchObject({ failure: "ambiguous", code: "timeout" });
});
