/** Faults 96, 97 and 99 as call-webhook meets them; the guard and the service's own webhooks have tests of their own. */
import { createServer } from "node:net";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { AllowList } from "../../src/egress/address.ts";
import { createEgress } from "../../src/egress/egress.ts";
import { callWebhook } from "../../src/satellites/builtin/call_webhook/call_webhook.ts";
import { forwardLogs } from "../../src/satellites/builtin/forward_logs/forward_logs.ts";
import { sendAlert } from "../../src/satellites/builtin/send_alert/send_alert.ts";
import { createGuardedHttp } from "../../src/satellites/sdk/guarded_http.ts";
import { SatelliteError } from "../../src/satellites/sdk/satellite_error.ts";
import { CORPUS, NAMES } from "../egress/inward_urls.ts";
import { attempt, callOf, EXECUTION_ID, failedAttempt } from "../satellites/builtin/one_attempt.ts";
import { openReceiver } from "../satellites/builtin/receiver.ts";

const webhook = callWebhook();
const closing: (() => void)[] = [];
let port = 0;
let connections = 0;

beforeAll(async () => {
  for (const host of ["127.0.0.1", "127.0.0.2", "::1"]) await sink(host).catch(() => undefined); // not every machine has them
});
afterAll(() => {
  for (const close of closing) close();
});

function sink(host: string): Promise<void> {
  const server = createServer((socket) => {
    connections += 1;
    socket.destroy();
  });
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, () => {
      closing.push(() => server.close());
      const address = server.address();
      port = typeof address === "object" && address !== null ? address.port : 0;
      resolve();
    });
  });
}

/** As a service has it, without networks of the operator's own. */
function guarded() {
  return {
    allow: new AllowList([]),
    ports: [port],
    resolve: async (name: string) => NAMES[name] ?? ["127.0.0.1"],
  };
}

describe("fault 96: a webhook that leads inwards", () => {
  it(`is refused in each of ${CORPUS.length} spellings, by the schema or as blocked_destination, and no sink sees it`, async () => {
    expect(CORPUS.length).toBeGreaterThan(100);
    const passed: string[] = [];
    let blocked = 0;
    for (const text of CORPUS) {
      const url = text.replace("PORT", String(port));
      const known = await callOf(webhook, { config: { url: "http://a.example.com/" }, egress: guarded() });
      // Past the schema too, as an address out of a secret would come.
      const outcome = await webhook.run({ ...known, config: { ...known.config, url } }).then(
        () => "completed",
        (error: unknown) => (error instanceof SatelliteError ? error : String(error)),
      );
      const isBlocked = outcome instanceof SatelliteError && outcome.code === "blocked_destination";
      if (!isBlocked || outcome.failure !== "permanent") passed.push(`${text} ${String(outcome)}`);
      else if (/127|::1|169\.254|10\./.test(outcome.message)) passed.push(`${text} tells ${outcome.message}`);
      else blocked += 1;
    }
    expect(passed).toEqual([]);
    expect([blocked, connections]).toEqual([CORPUS.length, 0]);
  });

  it("is refused by its parts too: no value of the input moves a request to another host", async () => {
    for (const url of [
      "http://{{host}}/",
      "{{url}}",
      "http://a.example.com{{path}}/",
      "http://u:{{p}}@a.example.com/",
    ])
      await expect(attempt(webhook, { config: { url }, egress: guarded() })).rejects.toThrow("config.url");
    const { url, received } = await openReceiver();
    for (const value of ["//evil.example/", "@evil.example", "\\evil.example", "?a#b", "a/../../b", " \r\n"])
      await attempt(webhook, { config: { url: `${url}/to/{{v}}` }, input: { v: value } });
    expect(received.map((one) => new URL(one.url, url).pathname.split("/").length)).toEqual(Array(6).fill(3));
    for (const v of [".", "..", "%2e", ".%2E"]) {
      const failed = await failedAttempt(webhook, {
        config: { url: `${url}/to/{{v}}/x` },
        input: { v },
      }).catch(() => v);
      if (v.startsWith("%") || v.includes("%"))
        expect(received.at(-1)?.url).toBe(`/to/${encodeURIComponent(v)}/x`);
      else expect(failed).toMatchObject({ code: "invalid_value", failure: "permanent" });
    }
  });

  it("is refused when a name changes its address between two attempts, and a redirect is a failure", async () => {
    const { url, received } = await openReceiver({
      status: 302,
      headers: { location: "http://169.254.169.254/" },
    });
    const answers = [["127.0.0.1"], ["10.1.2.3"]];
    const config = { url: `http://rebind.attacker.net:${new URL(url).port}/` };
    const known = await callOf(webhook, { config });
    const http = createGuardedHttp(
      createEgress({
        clock: systemClock,
        allow: new AllowList(["127.0.0.0/8"]),
        resolve: async () => answers.shift() ?? [],
      }),
    );
    await expect(webhook.run({ ...known, http })).rejects.toMatchObject({
      code: "redirected",
      failure: "permanent",
    });
    await expect(webhook.run({ ...known, http })).rejects.toMatchObject({ code: "blocked_destination" });
    expect(received).toHaveLength(1);
  });
});

/** So that no linter takes these for templates of JavaScript. */
const DOLLAR = "$";
const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;

describe("fault 96: other wires that lead inwards", () => {
  const HOSTS = [
    "127.0.0.1",
    "2130706433",
    "0x7f.1",
    "0177.0.0.1",
    "127.1",
    "::1",
    "::ffff:127.0.0.1",
    "[::1]",
    "0",
  ]
    .concat([
      "localhost",
      "localhost.",
      "router",
      "a.internal",
      "fe80::1%eth0",
      "169.254.169.254",
      "10.0.0.1",
    ])
    .concat([
      "loopback.attacker.net",
      "mixed.attacker.net",
      "six.attacker.net",
      "u@127.0.0.1",
      "127.0.0.1/#",
    ]);

  it("are refused to syslog in every spelling of a host, and to alerts and logs over HTTP", async () => {
    const seen = connections;
    const passed: string[] = [];
    const expectBlocked = async (what: string, failing: Promise<SatelliteError>): Promise<void> => {
      const { failure, code } = await failing;
      if (failure !== "permanent" || code !== "blocked_destination")
        passed.push(`${what}: ${failure} ${code}`);
    };
    const input = { entries: [{ message: "m" }] };
    for (const host of HOSTS) {
      const config = { receiver: "syslog", host, port, tls: false };
      await expectBlocked(host, failedAttempt(forwardLogs(), { config, input, egress: guarded() }));
    }
    for (const url of [
      `http://127.0.0.1:${port}/`,
      `http://[::ffff:7f00:1]:${port}/`,
      `http://six.attacker.net:${port}`,
    ]) {
      const loki = { receiver: "loki", url };
      const slack = { receiver: "slack", url };
      await expectBlocked(url, failedAttempt(forwardLogs(), { config: loki, input, egress: guarded() }));
      const alert = { config: slack, input: { title: "t" }, egress: guarded() };
      await expectBlocked(url, failedAttempt(sendAlert(), alert));
    }
    expect([passed, connections - seen]).toEqual([[], 0]);
  });
});

describe("fault 97: a bad receiver", () => {
  it("gets one id over all attempts, whether it resets, is slow, sends 10 GB or does not exist any more", async () => {
    const { url, received } = await openReceiver((request, response, _received, call) => {
      if (call === 1) request.socket.resetAndDestroy();
      if (call === 3) response.writeHead(410).end();
      if (call < 4) return;
      response.writeHead(200, { "content-type": "text/plain", "content-length": String(10 * 2 ** 30) });
      const chunk = Buffer.alloc(65_536, "ä");
      const pump = (): void => {
        while (!response.destroyed && response.write(chunk));
      };
      response.on("drain", pump);
      pump();
    });
    const given = { config: { url, secret: SECRET, timeout_ms: 300, answer: {} } };
    expect(await failedAttempt(webhook, given)).toMatchObject({
      failure: "ambiguous",
      code: "connection_lost",
    });
    expect(await failedAttempt(webhook, given)).toMatchObject({ failure: "ambiguous", code: "timeout" });
    expect(await failedAttempt(webhook, given)).toMatchObject({ failure: "permanent", code: "gone" });
    const { answer } = (await attempt(webhook, given)) as unknown as {
      answer: { text: string; is_whole: boolean };
    };
    expect([Buffer.byteLength(answer.text), answer.is_whole]).toEqual([65_536, false]);
    expect(received.map(({ headers }) => headers["webhook-id"])).toEqual(Array(4).fill(EXECUTION_ID));
  });

  it("that resets after a 2xx has had it", async () => {
    const { url } = await openReceiver((request, response) => {
      response.writeHead(200, { "content-length": "100" });
      response.write("part");
      setTimeout(() => request.socket.resetAndDestroy(), 20);
    });
    expect(await attempt(webhook, { config: { url, answer: {} } })).toMatchObject({
      status: 200,
      answer: { text: "part", is_whole: false },
    });
  });
});

describe("fault 99: a template that tries more than values", () => {
  const HOSTILE = [
    "{{constructor}}",
    "{{constructor.constructor('return process')()}}",
    "{{__proto__}}",
    "{{__proto__.polluted}}",
    "{{a.__proto__.toString}}",
    "{{a.constructor.name}}",
    "{{toString}}",
    "{{a.length}}",
    "{{list.length}}",
    "{{list.map}}",
    "{{list.-1}}",
    "{{object}}",
    "{{list}}",
    "{{this}}",
    "{{.}}",
    "{{#each list}}{{/each}}",
    "{{> partial}}",
    "{{!comment}}",
    "{{a b}}",
    "{{a['b']}}",
    "{{a..b}}",
    "{{}}",
    "{{7*7}}",
    "{{missing}}",
    "{{nothing}}",
  ];
  const input = JSON.parse(
    '{"a":"text","list":[1,2],"object":{"x":1},"nothing":null,"__proto__":{"polluted":"yes"}}',
  ) as object;

  it(`is missing its value in each of ${HOSTILE.length} ways, and nothing is sent`, async () => {
    const { url, received } = await openReceiver();
    const places = (text: string): object[] => [
      { body: { text } },
      { body: { json: { deep: [`x ${text}`] } } },
      { headers: { "x-a": text } },
      { query: { a: text } },
      ...(text.includes("#") ? [] : [{ url: `${url}/?a=${text}` }]),
    ];
    for (const text of HOSTILE)
      for (const place of places(text)) {
        const failed = await failedAttempt(webhook, { config: { url, ...place }, input });
        expect(failed, JSON.stringify(place)).toMatchObject({ failure: "permanent", code: "missing_value" });
      }
    expect(received).toEqual([]);
  });

  it("gets texts of other template languages as they are, and never fills in what a value holds", async () => {
    const { url, received } = await openReceiver();
    const text = `${DOLLAR}{7*7} {{a}} ${DOLLAR}{{ 7 }}`;
    await attempt(webhook, {
      config: { url, body: { text: `${DOLLAR}{7*7} <%= 7 %> #{7} {{a}}` } },
      input: { a: "{{b}}", b: 1 },
    });
    expect(received[0]?.body).toBe(`${DOLLAR}{7*7} <%= 7 %> #{7} {{b}}`);
    expect(await failedAttempt(webhook, { config: { url, body: { text } }, input })).toMatchObject({
      code: "missing_value",
    });
  });

  it("has no value that leaves its text in JSON", async () => {
    const { url, received } = await openReceiver();
    const values = ['","admin":true,"x":"', '"}', "\\", "\u2028", "\ud800", "{{a}}", '{"$ref":1}'];
    for (const a of values)
      await attempt(webhook, {
        config: { url, body: { json: { whole: "{{a}}", part: "<{{a}}>" } } },
        input: { a },
      });
    expect(received.map(({ body }) => JSON.parse(body))).toEqual(
      values.map((a) => ({ whole: a, part: `<${a}>` })),
    );
    expect(({} as { polluted?: string }).polluted).toBeUndefined();
  });
});
