/** The satellite send-alert: what each receiver is sent, and what its answers mean. */
import { Webhook } from "standardwebhooks";
import { describe, expect, it } from "vitest";
import { sendAlert } from "../../../src/satellites/builtin/send_alert/send_alert.ts";
import { documented, undocumented } from "./documented.ts";
import { attempt, EXECUTION_ID, failedAttempt } from "./one_attempt.ts";
import { type Answer, openReceiver, type Received } from "./receiver.ts";

const alert = sendAlert();
const SECRET = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;

/** Receivers with the least config, where `URL` means the address. */
const RECEIVERS: readonly { readonly receiver: string; readonly [name: string]: unknown }[] = [
  { receiver: "slack", url: "URL/services/T0/B0/x" },
  { receiver: "slack_api", token: "xoxb-1", channel: "C1", base_url: "URL/api/" },
  { receiver: "discord", url: "URL/api/webhooks/1/x?thread_id=2" },
  { receiver: "teams", url: "URL/workflows/1" },
  { receiver: "pagerduty", routing_key: "R".repeat(32), base_url: "URL" },
  { receiver: "opsgenie", api_key: "k", base_url: "URL", tags: ["batch"] },
  {
    receiver: "jira_service_management",
    api_key: "k",
    base_url: "URL",
    responders: [{ type: "team", name: "NOC" }],
  },
  { receiver: "webhook", url: "URL/alerts", secret: SECRET, token: "t" },
];
const NAMES = RECEIVERS.map(({ receiver }) => receiver);

interface Sent {
  readonly received: Received;
  readonly body: Readonly<Record<string, unknown>>;
  readonly output: Readonly<Record<string, unknown>>;
}

async function send(receiver: string, input: object, answer?: Answer): Promise<Sent> {
  const open = await openReceiver(answer ?? { status: 202, body: '{"ok":true}' });
  const output = await attempt(alert, { config: configOf(receiver, open.url), input });
  const received = open.received[0] as Received;
  return { received, body: JSON.parse(received.body) as Sent["body"], output };
}

function configOf(receiver: string, url: string): object {
  const config = RECEIVERS.find((one) => one.receiver === receiver);
  return JSON.parse(JSON.stringify(config).replace("URL", url)) as object;
}

const FULL = {
  severity: "critical",
  title: "Batch failed",
  message: "3 of 10 lines ended in error",
  source: "nightly",
  dedup_key: "batch/7",
  time: "2026-11-21T23:00:00Z",
  details: { task: "t1", failed: 3, codes: ["timeout"] },
  links: [{ url: "https://perigee.example/tasks?id=1&x=2", text: "task" }],
};

describe("an alert for", () => {
  it.each([
    ["slack", "slack/incoming_webhook"],
    ["slack_api", "slack/chat_post_message"],
    ["discord", "discord/execute_webhook"],
    ["teams", "teams/workflow"],
    ["pagerduty", "pagerduty/enqueue"],
    ["opsgenie", "opsgenie/create_alert"],
    ["jira_service_management", "jira_service_management/create_alert"],
  ])("%s has no member that its vendor does not document", async (receiver, fixture) => {
    const { request, response } = documented(fixture);
    const body = typeof response === "string" ? response : JSON.stringify(response);
    const sent = await send(receiver, FULL, { status: 200, body });
    expect(undocumented(sent.body, request)).toEqual([]);
    expect(sent.output).toMatchObject({ receiver, status: 200, dedup_key: "batch/7" });
  });

  it("each receiver is called at the documented place with its credentials", async () => {
    const told: Record<string, unknown> = {};
    for (const name of NAMES) {
      const { received } = await send(name, FULL);
      expect(received.headers["content-type"]).toMatch(/^application\/json/);
      told[name] = [received.method, received.url, received.headers.authorization];
    }
    expect(told).toEqual({
      slack: ["POST", "/services/T0/B0/x", undefined],
      slack_api: ["POST", "/api/chat.postMessage", "Bearer xoxb-1"],
      discord: ["POST", "/api/webhooks/1/x?thread_id=2&wait=true", undefined],
      teams: ["POST", "/workflows/1", undefined],
      pagerduty: ["POST", "/v2/enqueue", undefined],
      opsgenie: ["POST", "/v2/alerts", "GenieKey k"],
      jira_service_management: ["POST", "/jsm/ops/integration/v2/alerts", "GenieKey k"],
      webhook: ["POST", "/alerts", "Bearer t"],
    });
  });

  it("Slack shows label, text, details and links, colored by severity", async () => {
    const { body } = await send("slack", FULL);
    expect(body).toMatchObject({
      text: "CRITICAL: Batch failed",
      attachments: [
        {
          color: "#7f1d1d",
          blocks: [
            { text: { text: "*CRITICAL: Batch failed*", verbatim: true } },
            { text: { text: "3 of 10 lines ended in error" } },
            { fields: [{ text: "*task*\nt1" }, { text: "*failed*\n3" }, { text: '*codes*\n["timeout"]' }] },
            { text: { text: "<https://perigee.example/tasks?id=1&amp;x=2|task>" } },
            { elements: [{ text: "nightly · 2026-11-21T23:00:00.000Z" }] },
          ],
        },
      ],
    });
  });

  it("PagerDuty keeps severity and key, Opsgenie and Jira have priorities", async () => {
    const priorities: Record<string, unknown> = {};
    for (const severity of ["info", "warning", "error", "critical"]) {
      const pagerduty = await send("pagerduty", { ...FULL, severity });
      const opsgenie = await send("opsgenie", { ...FULL, severity });
      const jira = await send("jira_service_management", { ...FULL, severity });
      expect(pagerduty.body).toMatchObject({ dedup_key: "batch/7", payload: { severity } });
      expect(jira.body["priority"]).toBe(opsgenie.body["priority"]);
      priorities[severity] = opsgenie.body["priority"];
    }
    expect(priorities).toEqual({ info: "P5", warning: "P3", error: "P2", critical: "P1" });
  });

  it("a request to the user's own receiver is signed under the id of the execution", async () => {
    const { received } = await send("webhook", { title: "t" });
    const headers = received.headers as Record<string, string>;
    expect(new Webhook(SECRET).verify(received.body, headers)).toMatchObject({
      action: "trigger",
      severity: "error",
      title: "t",
      dedup_key: EXECUTION_ID,
      details: {},
    });
    expect(headers["webhook-id"]).toBe(EXECUTION_ID);
  });

  it("Opsgenie is accepted with a warning of its end, no other is", async () => {
    for (const name of NAMES) {
      const { output } = await send(name, { title: "t" });
      if (name === "opsgenie") expect(output["warnings"]).toEqual([expect.stringContaining("2027-04-05")]);
      else expect(output["warnings"]).toBeUndefined();
    }
  });
});

describe("an alert that is over", () => {
  it("is resolved and acknowledged by its key where the receiver has a state", async () => {
    const told: unknown[] = [];
    for (const action of ["acknowledge", "resolve"])
      for (const name of ["pagerduty", "opsgenie", "jira_service_management"]) {
        const { received, body } = await send(name, { action, title: "over", dedup_key: "batch/7" });
        told.push([name, received.url, body["event_action"], body["dedup_key"]]);
        if (name !== "pagerduty")
          expect(undocumented(body, documented(`${name}/close_alert`).request)).toEqual([]);
      }
    const jira = "/jsm/ops/integration";
    expect(told).toEqual([
      ["pagerduty", "/v2/enqueue", "acknowledge", "batch/7"],
      ["opsgenie", "/v2/alerts/batch%2F7/acknowledge?identifierType=alias", undefined, undefined],
      [
        "jira_service_management",
        `${jira}/v2/alerts/batch%2F7/acknowledge?identifierType=alias`,
        undefined,
        undefined,
      ],
      ["pagerduty", "/v2/enqueue", "resolve", "batch/7"],
      ["opsgenie", "/v2/alerts/batch%2F7/close?identifierType=alias", undefined, undefined],
      [
        "jira_service_management",
        `${jira}/v2/alerts/batch%2F7/close?identifierType=alias`,
        undefined,
        undefined,
      ],
    ]);
  });

  it("is a message of its own in chats", async () => {
    for (const name of ["slack", "slack_api", "discord", "teams"]) {
      const { received } = await send(name, { action: "resolve", title: "over", dedup_key: "k" });
      expect(received.body).toContain("RESOLVED: over");
    }
  });

  it("is refused without the key that says which", async () => {
    await expect(send("slack", { action: "resolve", title: "over" })).rejects.toThrow("input.dedup_key");
    const dots = { action: "resolve", title: "over", dedup_key: ".." };
    await expect(send("opsgenie", dots)).rejects.toThrow("input.dedup_key");
  });
});

describe("text that nobody vouches for", () => {
  const EVIL =
    "<!channel> <@U1> @everyone @here <https://evil.example|log in> [log in](https://evil.example) **x** & \\ `";
  const input = { title: EVIL, message: EVIL, source: EVIL, details: { [EVIL.slice(0, 90)]: EVIL } };

  it("mentions nobody in Slack and is not a link there", async () => {
    for (const name of ["slack", "slack_api"]) {
      const { received, body } = await send(name, input);
      expect(received.body).not.toMatch(/<[!@h#]/);
      expect(received.body).toContain("&lt;!channel&gt;");
      expect(JSON.stringify(body["attachments"]).match(/"mrkdwn"/g)?.length).toBe(
        JSON.stringify(body["attachments"]).match(/"verbatim":true/g)?.length,
      );
      expect(body["link_names"]).toBe(false);
    }
  });

  it("mentions nobody in Discord, and its Markdown is text", async () => {
    const { received, body } = await send("discord", input);
    expect(body["allowed_mentions"]).toEqual({ parse: [] });
    const [{ footer: _plain, ...embed }] = body["embeds"] as [{ footer: unknown }]; // a footer knows no Markdown
    expect(JSON.stringify(embed)).not.toMatch(/[^\\]@everyone|[^\\]\]\(|[^\\]<@/);
    expect(received.body).toContain("\\\\@everyone");
  });

  it("is only in text runs in Teams", async () => {
    const { body } = await send("teams", input);
    const card = JSON.stringify(body);
    expect(card).not.toMatch(/"TextBlock"|"FactSet"|"entities"/);
    expect(card).toContain("**x**");
  });

  it("is not a link when its address is not one of the web", async () => {
    for (const url of ["javascript:alert(1)", "file:///etc/passwd", "x"])
      await expect(send("slack", { title: "t", links: [{ url }] })).rejects.toThrow("input.links");
    const { body } = await send("slack", {
      title: "t",
      links: [{ url: "https://a.example/|<!here>", text: "a|b>" }],
    });
    expect(JSON.stringify(body)).toContain("<https://a.example/%7C%3C!here%3E|a|b&gt;>");
  });
});

describe("an alert that is too long", () => {
  const long = {
    title: "é<".repeat(500),
    message: "<&\u{1f525}".repeat(16_000),
    details: Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`name ${n}`, "v&".repeat(2_000)])),
    links: Array.from({ length: 10 }, (_, n) => ({ url: `https://a.example/${"x".repeat(1_900)}${n}` })),
  };
  const lengths = (value: unknown): number[] =>
    typeof value === "string" ? [value.length] : Object.values(value ?? {}).flatMap(lengths);

  it("is cut to what Slack takes, only whole entities", async () => {
    const { body } = await send("slack", long);
    const [{ blocks }] = body["attachments"] as [
      { blocks: { text?: { text: string }; fields?: unknown[] }[] },
    ];
    expect(blocks.length).toBeLessThanOrEqual(50);
    for (const { text, fields = [] } of blocks) {
      expect(text?.text.length ?? 0).toBeLessThanOrEqual(3_000);
      expect(fields.length).toBeLessThanOrEqual(10);
      expect(Math.max(0, ...lengths(fields))).toBeLessThanOrEqual(2_000);
    }
    const texts = blocks.flatMap(({ text }) => (text === undefined ? [] : [text.text]));
    expect(texts.some((text) => text.endsWith(" … (cut)"))).toBe(true);
    for (const text of texts) expect(text).not.toMatch(/&(?!amp;|lt;|gt;)/);
  });

  it("is cut to what Discord takes", async () => {
    const { body } = await send("discord", long);
    const [embed] = body["embeds"] as [
      {
        title: string;
        description: string;
        fields: { name: string; value: string }[];
        footer: { text: string };
      },
    ];
    expect([embed.title.length <= 256, embed.description.length <= 4_096, embed.fields.length <= 25]).toEqual(
      [true, true, true],
    );
    for (const { name, value } of embed.fields)
      expect([name.length <= 256, value.length <= 1_024]).toEqual([true, true]);
    const counted = [
      embed.title,
      embed.description,
      embed.footer.text,
      ...embed.fields.flatMap((one) => [one.name, one.value]),
    ];
    expect(counted.join("").length).toBeLessThanOrEqual(6_000);
  });

  it("is cut to the bytes that Teams takes", async () => {
    const { received } = await send("teams", { ...long, message: "\u{1f525}".repeat(30_000) });
    expect(received.bytes.length).toBeLessThanOrEqual(28 * 1024);
    expect(received.body).toContain(" … (cut)");
  });

  it("is cut to what PagerDuty, Opsgenie and Jira take", async () => {
    const event = await send("pagerduty", long);
    expect((event.body["payload"] as { summary: string }).summary.length).toBeLessThanOrEqual(1_024);
    expect(event.received.bytes.length).toBeLessThanOrEqual(512 * 1024);
    for (const name of ["opsgenie", "jira_service_management"]) {
      const { body } = await send(name, { ...long, source: "s".repeat(255) });
      const { message, description, source, details } = body as Record<string, string>;
      expect([message?.length, source?.length]).toEqual([130, 100]);
      expect(description?.length).toBeLessThanOrEqual(15_000);
      expect(
        Object.entries(details ?? {})
          .flat()
          .join("").length,
      ).toBeLessThanOrEqual(8_000);
    }
  });
});

describe("what a receiver answers", () => {
  it("is reported with its status and the receiver's own code", async () => {
    const fail = async (receiver: string, answer: Answer): Promise<unknown[]> => {
      const { url } = await openReceiver(answer);
      const { failure, code, message, retryAfterMs } = await failedAttempt(alert, {
        config: configOf(receiver, url),
        input: { title: "t" },
      });
      return [failure, code, message, retryAfterMs];
    };
    const limited = { status: 429, headers: { "retry-after": "2" }, body: '{"retry_after":1.5}' };
    expect(await fail("slack", { status: 404, body: "no_service" })).toEqual([
      "permanent",
      "http_404",
      "the receiver answered 404 (no_service)",
      undefined,
    ]);
    expect(await fail("discord", limited)).toMatchObject(["refused", "http_429", expect.any(String), 2_000]);
    expect(await fail("pagerduty", { status: 400, body: '{"status":"invalid event"}' })).toMatchObject([
      "permanent",
      "http_400",
      "the receiver answered 400",
      undefined,
    ]);
    expect(await fail("teams", { status: 502, body: "<html>" })).toMatchObject([
      "ambiguous",
      "http_502",
      expect.any(String),
      undefined,
    ]);
    expect(await fail("opsgenie", { status: 422, body: '{"code":40301}' })).toMatchObject([
      "permanent",
      "http_422",
      "the receiver answered 422 (40301)",
      undefined,
    ]);
    const ok = (error: string): Answer => ({ status: 200, body: JSON.stringify({ ok: false, error }) });
    expect(await fail("slack_api", ok("channel_not_found"))).toMatchObject([
      "permanent",
      "slack_channel_not_found",
      expect.any(String),
      undefined,
    ]);
    expect(await fail("slack_api", ok("ratelimited"))).toMatchObject([
      "refused",
      "slack_ratelimited",
      expect.any(String),
      undefined,
    ]);
    expect(await fail("slack_api", ok("internal_error"))).toMatchObject([
      "ambiguous",
      "slack_internal_error",
      expect.any(String),
      undefined,
    ]);
    expect(await fail("slack_api", { status: 200, body: "?" })).toMatchObject([
      "ambiguous",
      "slack_unreadable_answer",
      expect.any(String),
      undefined,
    ]);
  });
});
