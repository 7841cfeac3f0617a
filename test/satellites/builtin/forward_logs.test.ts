/** The satellite forward-logs: what each receiver over HTTP is sent, batches, repeats, and refused entries. */
import { describe, expect, it } from "vitest";
import { forwardLogs } from "../../../src/satellites/builtin/forward_logs/forward_logs.ts";
import { documented, undocumented } from "./documented.ts";
import { attempt, EXECUTION_ID, failedAttempt, MemoryNotes } from "./one_attempt.ts";
import { type Answer, openReceiver, type Received } from "./receiver.ts";

const logs = forwardLogs();
const FILE = "11111111-2222-4333-8444-555555555555";
const TIME = "2026-11-21T23:00:00.123Z";

const RECEIVERS: readonly { readonly receiver: string; readonly [name: string]: unknown }[] = [
  { receiver: "loki", url: "URL/", labels: { app: "batch" }, tenant: "t1", token: "k" },
  { receiver: "splunk", url: "URL", token: "k", index: "main", host: "h" },
  { receiver: "elasticsearch", url: "URL", index: "logs-perigee-default", api_key: "k" },
  { receiver: "opensearch", url: "URL", index: "logs", username: "u", password: "p" },
  { receiver: "datadog", api_key: "k", base_url: "URL", tags: ["env:test"], hostname: "h" },
  { receiver: "new_relic", api_key: "k", base_url: "URL", attributes: { app: "batch" } },
  { receiver: "otlp", url: "URL", headers: { "Api-Key": "k" } },
];

const ENTRIES = [
  {
    time: TIME,
    level: "warn",
    message: "first\nline",
    attributes: { task: "t1", "a b.c": 2, deep: { list: [1, null, true, 1.5] } },
  },
  { time: 1_795_000_000_000, message: 'second "ä" \u{1f525}' },
];

function answerOf(receiver: string): Answer {
  return (_request, response, { body }) => {
    const items = body
      .trim()
      .split("\n")
      .filter((_, n) => n % 2 === 0);
    if (receiver === "splunk") response.end('{"text":"Success","code":0}');
    else if (receiver === "elasticsearch" || receiver === "opensearch")
      response.end(JSON.stringify({ errors: false, items: items.map(() => ({ create: { status: 201 } })) }));
    else if (receiver === "otlp") response.end("{}");
    else response.writeHead(receiver === "loki" ? 204 : 202).end();
  };
}

function configOf(receiver: string, url: string, more: object = {}): object {
  const config = RECEIVERS.find((one) => one.receiver === receiver);
  return { ...(JSON.parse(JSON.stringify(config).replace("URL", url)) as object), ...more };
}

async function forward(receiver: string, more: object = {}): Promise<Received> {
  const { url, received } = await openReceiver(answerOf(receiver));
  const output = await attempt(logs, { config: configOf(receiver, url, more), input: { entries: ENTRIES } });
  expect(output).toEqual({ receiver, entries: 2, batches: 1 });
  expect(received).toHaveLength(1);
  return received[0] as Received;
}

function linesOf(body: string): Record<string, unknown>[] {
  return body
    .trimEnd()
    .split("\n")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

describe("entries for", () => {
  it.each([
    ["loki", "loki/push"],
    ["datadog", "datadog/logs"],
    ["new_relic", "new_relic/log"],
    ["otlp", "otlp/logs"],
  ])("%s have no member that its vendor does not document", async (receiver, fixture) => {
    const { body } = await forward(receiver);
    expect(undocumented(JSON.parse(body), documented(fixture).request)).toEqual([]);
  });

  it("Splunk and Elasticsearch are lines, each as documented", async () => {
    const event = documented("splunk/event").request;
    expect(linesOf((await forward("splunk")).body).flatMap((line) => undocumented(line, event))).toEqual([]);
    const [action, source] = documented("elasticsearch/bulk").request as [object, object];
    for (const receiver of ["elasticsearch", "opensearch"]) {
      const { body } = await forward(receiver);
      expect(body.endsWith("\n")).toBe(true);
      const wrong = linesOf(body).flatMap((line, n) => undocumented(line, n % 2 === 0 ? action : source));
      expect(wrong).toEqual([]);
    }
  });

  it("each receiver go to the documented place, packed, with its credentials", async () => {
    const told: Record<string, unknown> = {};
    for (const { receiver } of RECEIVERS) {
      const { url, headers } = await forward(receiver);
      expect(headers["content-encoding"]).toBe("gzip");
      told[receiver] = [
        url,
        headers["content-type"],
        headers.authorization ?? headers["dd-api-key"] ?? headers["api-key"],
      ];
      const plain = await forward(receiver, { gzip: false });
      expect(plain.headers["content-encoding"]).toBeUndefined();
    }
    const bulk = "_bulk?filter_path=errors,items.*.status,items.*.error.type";
    expect(told).toEqual({
      loki: ["/loki/api/v1/push", "application/json", "Bearer k"],
      splunk: ["/services/collector/event", "application/json", "Splunk k"],
      elasticsearch: [`/logs-perigee-default/${bulk}`, "application/x-ndjson", "ApiKey k"],
      opensearch: [`/logs/${bulk}`, "application/x-ndjson", "Basic dTpw"],
      datadog: ["/api/v2/logs", "application/json", "k"],
      new_relic: ["/log/v1", "application/json", "k"],
      otlp: ["/v1/logs", "application/json", "k"],
    });
  });

  it("Loki are streams by level, with times in nanoseconds and attributes as texts", async () => {
    const { body, headers } = await forward("loki");
    expect(headers["x-scope-orgid"]).toBe("t1");
    const metadata = { task: "t1", a_b_c: "2", deep: '{"list":[1,null,true,1.5]}' };
    expect(JSON.parse(body)).toEqual({
      streams: [
        {
          stream: { app: "batch", level: "warning" },
          values: [["1795302000123000000", "first\nline", metadata]],
        },
        {
          stream: { app: "batch", level: "info" },
          values: [["1795000000000000000", 'second "ä" \u{1f525}', {}]],
        },
      ],
    });
  });

  it("OTLP keep types and have the data model's severities", async () => {
    const { body } = await forward("otlp");
    const { resourceLogs } = JSON.parse(body) as {
      resourceLogs: [{ scopeLogs: [{ logRecords: object[] }] }];
    };
    expect(resourceLogs[0].scopeLogs[0].logRecords[0]).toMatchObject({
      timeUnixNano: "1795302000123000000",
      severityNumber: 13,
      attributes: [
        { key: "task", value: { stringValue: "t1" } },
        { key: "a b.c", value: { intValue: "2" } },
        {
          key: "deep",
          value: {
            kvlistValue: {
              values: [
                {
                  key: "list",
                  value: {
                    arrayValue: {
                      values: [{ intValue: "1" }, {}, { boolValue: true }, { doubleValue: 1.5 }],
                    },
                  },
                },
              ],
            },
          },
        },
      ],
    });
  });

  it("Elasticsearch have ids that stay over attempts", async () => {
    const { body } = await forward("elasticsearch");
    expect(linesOf(body).filter((_, n) => n % 2 === 0)).toEqual([
      { create: { _id: `${EXECUTION_ID}-0` } },
      { create: { _id: `${EXECUTION_ID}-1` } },
    ]);
  });
});

describe("the lines of a file", () => {
  const lines = [
    JSON.stringify({ time: TIME, level: "ERROR", message: "m", task: "t", attributes: { a: 1 } }),
    "",
    "plain text",
    '{"key":"k1","output":{"type":"text","text":"hi"}}',
    '{"torn":',
    `{"message":"deep","x":${"[".repeat(5_000)}${"]".repeat(5_000)}}`,
  ];

  it("are entries where they can be, and messages where not", async () => {
    const { url, received } = await openReceiver({ status: 202 });
    await attempt(logs, {
      config: configOf("datadog", url),
      input: { file_id: { file_id: FILE, name: "a" } },
      files: { [FILE]: `\uFEFF${lines.join("\r\n")}` },
    });
    const sent = JSON.parse(received[0]?.body ?? "") as Record<string, unknown>[];
    expect(sent[0]).toMatchObject({ message: "m", status: "error", timestamp: TIME, task: "t", a: 1 });
    expect(sent.map(({ message }) => message)).toEqual(["m", lines[2], lines[3], lines[4], lines[5]]);
  });

  it("are cut to what the receiver takes, and blank files need no request", async () => {
    const { url, received } = await openReceiver({ status: 202 });
    const config = configOf("new_relic", url);
    const files = { [FILE]: `${"ä".repeat(2_000_000)}\n{"message":"b"}` };
    await attempt(logs, { config, input: { file_id: FILE }, files });
    const [{ logs: sent }] = JSON.parse(received[0]?.body ?? "") as [{ logs: { message: string }[] }];
    expect(Buffer.byteLength(sent[0]?.message ?? "")).toBeLessThanOrEqual(100 * 1024);
    expect(sent[0]?.message).toMatch(/^ä+ … \(cut\)$/);
    expect(sent[1]?.message).toBe("b");
    const blank = { config, input: { file_id: FILE }, files: { [FILE]: "\n \r\n" } };
    expect(await attempt(logs, blank)).toEqual({ receiver: "new_relic", entries: 0, batches: 0 });
  });

  it("go in batches of a bounded count and size, each noted, and a repeat goes on behind the last that was taken", async () => {
    const all = Array.from({ length: 25 }, (_, n) => JSON.stringify({ message: `line ${n}` }));
    const files = { [FILE]: all.join("\n") };
    const notes = new MemoryNotes();
    const { url, received } = await openReceiver((_request, response, _received, call) => {
      response.writeHead(call === 3 ? 503 : 202, { "retry-after": "4" }).end();
    });
    const done: unknown[] = [];
    const given = {
      config: configOf("datadog", url, { batch: { entries: 10 } }),
      input: { file_id: FILE },
      files,
      notes,
      onProgress: (...told: unknown[]) => done.push(told[0]),
    };
    expect(await failedAttempt(logs, given)).toMatchObject({
      failure: "refused",
      code: "http_503",
      message: "the receiver answered 503; the 20 entries before were taken",
      retryAfterMs: 4_000,
    });
    expect(await attempt(logs, given)).toEqual({ receiver: "datadog", entries: 25, batches: 3 });
    const sizes = received.map(({ body }) =>
      (JSON.parse(body) as { message: string }[]).map((one) => one.message),
    );
    expect(sizes.map((list) => [list.length, list[0]])).toEqual([
      [10, "line 0"],
      [10, "line 10"],
      [5, "line 20"],
      [5, "line 20"],
    ]);
    // Entries without a time are alike in every attempt.
    expect(received[3]?.body).toBe(received[2]?.body);
    expect(done).toEqual([10, 20, 25]);
    expect(await attempt(logs, given)).toEqual({ receiver: "datadog", entries: 25, batches: 3 });
    expect(received).toHaveLength(4);
    const small = {
      ...given,
      notes: new MemoryNotes(),
      config: configOf("datadog", url, { batch: { bytes: 2_000 } }),
    };
    expect(((await attempt(logs, small)) as { batches: number }).batches).toBeGreaterThan(3);
  });
});

describe("errors of items within a 200", () => {
  const entries = Array.from({ length: 4 }, (_, n) => ({ message: `m${n}` }));
  const bulk = documented("elasticsearch/bulk") as unknown as { item_errors: object; response: object };

  it("are distinguished: only those without room are sent again, and the refused fail the execution in the end", async () => {
    const { url, received } = await openReceiver((_request, response, _received, call) => {
      response.end(JSON.stringify(call === 1 ? bulk.item_errors : bulk.response));
    });
    const given = { config: configOf("elasticsearch", url), input: { entries }, notes: new MemoryNotes() };
    expect(await failedAttempt(logs, given)).toMatchObject({ failure: "refused", code: "entries_left" });
    const end = await failedAttempt(logs, given);
    expect(end).toMatchObject({ failure: "permanent", code: "entries_rejected" });
    expect(end.message).toBe("the receiver refused 1 of 4 entries (entry 2: document_parsing_exception)");
    expect(linesOf(received[1]?.body ?? "")).toMatchObject([
      { create: { _id: `${EXECUTION_ID}-2` } },
      { message: "m2" },
    ]);
  });

  it("do not delay what follows them", async () => {
    const { url, received } = await openReceiver((_request, response, { body }) => {
      const items = linesOf(body).filter((_, n) => n % 2 === 0);
      const isBad = body.includes('"m1"');
      const error = { type: "document_parsing_exception" };
      response.end(
        JSON.stringify({
          errors: isBad,
          items: items.map((_, n) => ({
            create: isBad && n === 1 ? { status: 400, error } : { status: 201 },
          })),
        }),
      );
    });
    const config = configOf("opensearch", url, { batch: { entries: 2 } });
    expect(await failedAttempt(logs, { config, input: { entries } })).toMatchObject({
      code: "entries_rejected",
    });
    expect(received).toHaveLength(2);
  });

  it("are counted where the receiver does not say which, and never sent again by OTLP's rules", async () => {
    const { partial } = documented("otlp/logs") as unknown as { partial: object };
    const { url, received } = await openReceiver({ status: 200, body: JSON.stringify(partial) });
    const failed = await failedAttempt(logs, { config: configOf("otlp", url), input: { entries } });
    expect([failed.failure, failed.message]).toEqual([
      "permanent",
      "the receiver refused 2 of 4 entries (rejected_log_records, rejected_log_records)",
    ]);
    expect(received).toHaveLength(1);
  });

  it("that cannot be read leave the batch in doubt", async () => {
    for (const [receiver, body] of [
      ["elasticsearch", '{"errors":true,"items":[]}'],
      ["opensearch", "<html>"],
      ["splunk", "{}"],
    ] as const) {
      const { url } = await openReceiver({ status: 200, body });
      const failed = await failedAttempt(logs, { config: configOf(receiver, url), input: { entries } });
      expect(failed).toMatchObject({ failure: "ambiguous", code: "unreadable_answer" });
    }
  });
});

describe("a status", () => {
  it("is repeated as the receiver's rules say, with its own code", async () => {
    const told: unknown[] = [];
    for (const [receiver, status, body] of [
      ["splunk", 503, '{"text":"Server is busy","code":9}'],
      ["splunk", 403, '{"text":"Invalid token","code":4}'],
      ["loki", 400, "entry too far behind"],
      ["loki", 429, ""],
      ["otlp", 500, ""],
      ["otlp", 502, ""],
      ["otlp", 408, ""],
      ["datadog", 500, ""],
      ["datadog", 413, ""],
      ["elasticsearch", 401, '{"error":{"type":"security_exception"}}'],
    ] as const) {
      const { url } = await openReceiver({ status, body });
      const input = { entries: [{ message: "m" }] };
      const { failure, message } = await failedAttempt(logs, { config: configOf(receiver, url), input });
      told.push(`${receiver} ${failure} ${message}`);
    }
    expect(told).toEqual([
      "splunk refused the receiver answered 503 (9)",
      "splunk permanent the receiver answered 403 (4)",
      "loki permanent the receiver answered 400",
      "loki refused the receiver answered 429",
      "otlp permanent the receiver answered 500",
      "otlp ambiguous the receiver answered 502",
      "otlp permanent the receiver answered 408",
      "datadog ambiguous the receiver answered 500",
      "datadog permanent the receiver answered 413",
      "elasticsearch permanent the receiver answered 401 (security_exception)",
    ]);
  });

  it("is never read from a private address", async () => {
    const given = { config: configOf("loki", "http://10.0.0.1:80"), input: { entries: ENTRIES } };
    expect(await failedAttempt(logs, given)).toMatchObject({
      failure: "permanent",
      code: "blocked_destination",
    });
    const input = { file_id: FILE };
    const { url } = await openReceiver();
    expect(await failedAttempt(logs, { config: configOf("loki", url), input })).toMatchObject({
      code: "file_not_found",
    });
  });
});
