/** The satellite call-webhook, against receivers on loopback. */
import { Webhook } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import { callWebhook } from "../../../src/satellites/builtin/call_webhook/call_webhook.ts";
import { attempt, EXECUTION_ID, failedAttempt } from "./one_attempt.ts";
import { openReceiver } from "./receiver.ts";

const SECRET = `whsec_${Buffer.from("0123456789abcdef0123456789abcdef").toString("base64")}`;
const webhook = callWebhook();

describe("a call of a webhook", () => {
  it("posts the input as JSON when the config says no more than where to", async () => {
    const { url, received } = await openReceiver();
    expect(await attempt(webhook, { config: { url: `${url}/hook` }, input: { a: [1, "ä"] } })).toEqual({
      status: 200,
    });
    expect(received).toMatchObject([{ method: "POST", url: "/hook", body: '{"a":[1,"ä"]}' }]);
    expect(received[0]?.headers).toMatchObject({ "content-type": "application/json" });
  });

  it("takes any method but those of proxies, and sends no body of its own with most", async () => {
    const { url, received } = await openReceiver();
    const methods = [
      "GET",
      "POST",
      "PUT",
      "PATCH",
      "DELETE",
      "HEAD",
      "OPTIONS",
      "PURGE",
      "QUERY",
      "M-SEARCH",
    ];
    for (const method of methods) await attempt(webhook, { config: { url, method }, input: { a: 1 } });
    expect(received.map(({ method }) => method)).toEqual(methods);
    expect(received.filter(({ body }) => body !== "").map(({ method }) => method)).toEqual([
      "POST",
      "PUT",
      "PATCH",
    ]);
    for (const method of ["CONNECT", "TRACE", "get", "A B", "A\r\nB", ""])
      await expect(attempt(webhook, { config: { url, method } })).rejects.toThrow("config.method");
  });

  it("fills values into the path, the query, headers and JSON, each in its own way", async () => {
    const { url, received } = await openReceiver();
    await attempt(webhook, {
      config: {
        url: `${url}/orders/{{order.id}}/lines?of={{name}}#top`,
        method: "PUT",
        headers: { Authorization: "Bearer t", "X-Name": "n {{ name }}" },
        query: { page: 2, tag: ["{{name}}", "b"] },
        body: {
          json: { whole: "{{n}}", part: "{{n}} of {{list.1}}", deep: [{ is: "{{yes}}" }], left: null },
        },
      },
      input: { order: { id: "a/b?c" }, name: 'x&y"', n: 3, list: [1, 2], yes: true },
    });
    expect(received).toMatchObject([
      { url: "/orders/a%2Fb%3Fc/lines?of=x%26y%22&page=2&tag=x%26y%22&tag=b", method: "PUT" },
    ]);
    expect(JSON.parse(received[0]?.body ?? "")).toEqual({
      whole: 3,
      part: "3 of 2",
      deep: [{ is: true }],
      left: null,
    });
    expect(received[0]?.headers).toMatchObject({ authorization: "Bearer t", "x-name": 'n x&y"' });
  });

  it("escapes values in other texts as their type asks for", async () => {
    const { url, received } = await openReceiver();
    const types = ["text/plain", "application/x-www-form-urlencoded", "application/soap+xml", "text/html"];
    for (const content_type of types)
      await attempt(webhook, {
        config: { url, body: { text: "v={{v}}", content_type } },
        input: { v: "<&'>" },
      });
    expect(received.map(({ body }) => body)).toEqual([
      "v=<&'>",
      "v=%3C%26'%3E",
      "v=&lt;&amp;&#39;&gt;",
      "v=&lt;&amp;&#39;&gt;",
    ]);
    const config = { url, body: { text: '{"v":"{{v}}"}', content_type: "application/problem+json" } };
    await expect(attempt(webhook, { config })).rejects.toThrow("config.body.text: must have no templates");
  });

  it("sends a file of the project as it is, up to 4 MiB", async () => {
    const { url, received } = await openReceiver();
    const config = { url, method: "PUT", body: { file_id: "{{document.file_id}}" } };
    const files = { f1: new Uint8Array([0, 255, 10]), big: new Uint8Array(4 * 1024 * 1024 + 1) };
    await attempt(webhook, { config, input: { document: { file_id: "f1" } }, files });
    expect(received[0]?.bytes).toEqual(Buffer.from([0, 255, 10]));
    for (const [file_id, code] of [
      ["big", "file_too_large"],
      ["f2", "file_not_found"],
    ] as const) {
      const failed = await failedAttempt(webhook, { config, input: { document: { file_id } }, files });
      expect(failed).toMatchObject({ failure: "permanent", code });
    }
    expect(received).toHaveLength(1);
  });

  it("refuses headers that frame the message, and values that would end a header", async () => {
    const { url, received } = await openReceiver();
    for (const name of [
      "Host",
      "content-length",
      "Transfer-Encoding",
      "connection",
      "te",
      "upgrade",
      "a b",
      "",
    ])
      await expect(attempt(webhook, { config: { url, headers: { [name]: "x" } } })).rejects.toThrow(
        "config.",
      );
    for (const value of ["a\r\nb: c", "a\nb", "a\0b", "ü"])
      await expect(attempt(webhook, { config: { url, headers: { a: value } } })).rejects.toThrow("config.");
    const config = { url, headers: { "x-a": "{{a}}" } };
    const failed = await failedAttempt(webhook, { config, input: { a: "1\r\nx-evil: 2" } });
    expect(failed).toMatchObject({ failure: "permanent", code: "invalid_value" });
    expect(received).toEqual([]);
  });

  it("is signed by Standard Webhooks under the id of the execution", async () => {
    const { url, received } = await openReceiver();
    await attempt(webhook, { config: { url, secret: SECRET }, input: { a: "ä" } });
    await attempt(webhook, { config: { url, method: "GET", secret: SECRET } });
    const [first, second] = received;
    const headers = (first?.headers ?? {}) as Record<string, string>;
    expect(new Webhook(SECRET).verify(first?.body ?? "", headers)).toEqual({ a: "ä" });
    expect(headers["webhook-id"]).toBe(EXECUTION_ID);
    new Webhook(SECRET).verify("", (second?.headers ?? {}) as Record<string, string>);
    const binary = {
      config: { url, body: { file_id: "f" }, secret: SECRET },
      files: { f: new Uint8Array([255]) },
    };
    expect(await failedAttempt(webhook, binary)).toMatchObject({ code: "not_signable" });
    for (const config of [{ secret: "hunter2" }, { secret: SECRET, headers: { "Webhook-Id": "1" } }])
      await expect(attempt(webhook, { config: { url, ...config } })).rejects.toThrow("config.");
  });

  it("keeps the answer on request: named headers, and the body as text, JSON or base64", async () => {
    const bodies = ['{"id":7}', "plain ä", Buffer.from([255, 0]), '{"torn":'];
    const { url } = await openReceiver((_request, response, _received, call) => {
      const type = call === 1 || call === 4 ? "application/json" : "text/plain";
      response.writeHead(201, { "content-type": type, location: "/7", "set-cookie": "a=b" });
      response.end(bodies[call - 1]);
    });
    const config = { url, answer: { headers: ["Location"] } };
    const answers = [];
    for (const _ of bodies) answers.push((await attempt(webhook, { config }))["answer"]);
    const headers = { location: "/7" };
    expect(answers).toEqual([
      { headers, text: '{"id":7}', json: { id: 7 }, is_whole: true },
      { headers, text: "plain ä", is_whole: true },
      { headers, base64: "/wA=", is_whole: true },
      { headers, text: '{"torn":', is_whole: true },
    ]);
  });
});

describe("what a status means", () => {
  it("follows from its class: come later, unknown, or never", async () => {
    let status = 0;
    const { url } = await openReceiver((_request, response) => {
      response.writeHead(status, { location: "http://127.0.0.1:1/", "retry-after": "7" }).end("secret words");
    });
    const told: Record<number, string> = {};
    for (status of [301, 307, 400, 401, 404, 408, 409, 410, 425, 429, 500, 502, 503, 504]) {
      const { failure, code, message, retryAfterMs } = await failedAttempt(webhook, { config: { url } });
      told[status] = `${failure} ${code} ${retryAfterMs ?? "-"}`;
      expect(message).toBe(`the receiver answered ${status}`);
    }
    expect(told).toEqual({
      301: "permanent redirected -",
      307: "permanent redirected -",
      400: "permanent http_400 -",
      401: "permanent http_401 -",
      404: "permanent http_404 -",
      408: "refused http_408 7000",
      409: "permanent http_409 -",
      410: "permanent gone -",
      425: "refused http_425 7000",
      429: "refused http_429 7000",
      500: "ambiguous http_500 7000",
      502: "ambiguous http_502 7000",
      503: "refused http_503 7000",
      504: "ambiguous http_504 7000",
    });
  });

  it("is repeatable when it is signed, idempotent, or said to be", () => {
    const of = (config: object): unknown =>
      typeof webhook.isRepeatable === "function" &&
      webhook.isRepeatable({ input: {}, config: { method: "POST", ...config } as never });
    expect([of({}), of({ method: "PATCH" }), of({ method: "GET", repeatable: false })]).toEqual([
      false,
      false,
      false,
    ]);
    expect([of({ secret: SECRET }), of({ method: "DELETE" }), of({ repeatable: true })]).toEqual([
      true,
      true,
      true,
    ]);
  });

  it("has its host and port as destination, or the name of the secret that it is", () => {
    const of = (url: string): unknown => webhook.destination?.({ input: {}, config: { url } as never });
    expect(of("https://Hooks.Example.com/a?b")).toBe("hooks.example.com:443");
    expect(of("http://10.0.0.1:8080/{{a}}")).toBe("10.0.0.1:8080");
    expect(of("secret://hook")).toBe("secret://hook");
    expect(of("ftp://a")).toBeUndefined();
  });
});

describe("a config that names secrets", () => {
  it("passes the schema before they are filled in", async () => {
    const config = { url: "secret://hook", secret: "secret://signing", headers: { a: "Bearer secret://t" } };
    const { issues } = await webhook.config["~standard"].validate(config);
    expect(issues).toBeUndefined();
  });
});
