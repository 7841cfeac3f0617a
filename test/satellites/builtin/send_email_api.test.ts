/** `send-email` through the APIs of mail providers: what is sent is compared with what they document. */
import { describe, expect, it } from "vitest";
import { AllowList } from "../../../src/egress/address.ts";
import { sendEmail } from "../../../src/satellites/builtin/send_email/send_email.ts";
import { signedByAws } from "../../../src/satellites/builtin/send_email/sigv4.ts";
import { FakeClock } from "../../../src/testing/fake_clock.ts";
import { documented, undocumented } from "./documented.ts";
import { type Attempt, attempt, EXECUTION_ID, failedAttempt } from "./one_attempt.ts";
import { openReceiver, type Receiver } from "./receiver.ts";

const MESSAGE = {
  from: '"Reports, daily" <reports@example.org>',
  to: ["ann@example.net", "Bob <bob@example.net>"],
  cc: "carl@example.net",
  bcc: ["hidden@example.net", "ANN@example.net"],
  reply_to: "desk@example.org",
  subject: "Grüße",
  text: "plain",
  html: "<p>rich</p>",
  headers: { "X-Campaign": "spring" },
  attachments: [
    { file_id: "pdf", filename: "a.pdf", content_type: "application/pdf" },
    { file_id: "png", filename: "b.png", content_type: "image/png", content_id: "logo" },
  ],
};
const FILES = { pdf: "pdf bytes", png: "png bytes" };
const MESSAGE_ID = `<${EXECUTION_ID}@example.org>`;

const CONFIGS = {
  ses: { region: "eu-central-1", access_key_id: "AKIDEXAMPLE", secret_access_key: "secret" },
  sendgrid: { api_key: "SG.key" },
  mailgun: { api_key: "mg-key", domain: "mg.example.org" },
  postmark: { server_token: "pm-token", message_stream: "reports" },
  resend: { api_key: "re_key" },
} as const;
type Provider = keyof typeof CONFIGS;

function through(provider: Provider, { url }: Pick<Receiver, "url">, given: Partial<Attempt> = {}): Attempt {
  const config = { provider, ...CONFIGS[provider], base_url: `${url}/` };
  return { input: MESSAGE, files: FILES, config, ...given };
}

const base64 = (text: string): string => Buffer.from(text).toString("base64");

describe("send-email over HTTP", () => {
  it("sends what SendGrid documents", async () => {
    const receiver = await openReceiver({ status: 202, headers: { "x-message-id": "sg-1" } });
    const output = await attempt(sendEmail(), through("sendgrid", receiver));
    expect(output).toEqual({
      message_id: MESSAGE_ID,
      provider: "sendgrid",
      provider_message_id: "sg-1",
      accepted: ["ann@example.net", "bob@example.net", "carl@example.net", "hidden@example.net"],
      rejected: [],
    });
    const [{ url, headers, body } = { url: "", headers: {}, body: "" }] = receiver.received;
    expect([url, headers.authorization]).toEqual(["/v3/mail/send", "Bearer SG.key"]);
    const sent = JSON.parse(body);
    expect(undocumented(sent, documented("sendgrid/send").request)).toEqual([]);
    expect(sent).toMatchObject({
      personalizations: [
        {
          to: [{ email: "ann@example.net" }, { email: "bob@example.net", name: "Bob" }],
          cc: [{ email: "carl@example.net" }],
          bcc: [{ email: "hidden@example.net" }],
        },
      ],
      from: { email: "reports@example.org", name: "Reports, daily" },
      content: [
        { type: "text/plain", value: "plain" },
        { type: "text/html", value: "<p>rich</p>" },
      ],
      attachments: [
        { content: base64("pdf bytes"), disposition: "attachment" },
        { content: base64("png bytes"), disposition: "inline", content_id: "logo" },
      ],
      headers: { "X-Campaign": "spring", "Message-ID": MESSAGE_ID },
    });
  });

  it("sends what Postmark documents", async () => {
    const { request, response } = documented("postmark/send");
    const receiver = await openReceiver({ status: 200, body: JSON.stringify(response) });
    const output = await attempt(sendEmail(), through("postmark", receiver));
    expect(output).toMatchObject({ provider_message_id: "0a129aee-e1cd-480d-b08d-4f48548ff48d" });
    const [one] = receiver.received;
    expect([one?.url, one?.headers["x-postmark-server-token"], one?.headers.accept]).toEqual([
      "/email",
      "pm-token",
      "application/json",
    ]);
    const sent = JSON.parse(one?.body ?? "");
    expect(undocumented(sent, request)).toEqual([]);
    expect(sent).toMatchObject({
      From: '"Reports, daily" <reports@example.org>',
      To: 'ann@example.net, "Bob" <bob@example.net>',
      Bcc: "hidden@example.net",
      ReplyTo: "desk@example.org",
      TextBody: "plain",
      HtmlBody: "<p>rich</p>",
      MessageStream: "reports",
    });
    expect(sent.Headers).toContainEqual({ Name: "Message-ID", Value: MESSAGE_ID });
    expect(sent.Attachments[1]).toMatchObject({ Content: base64("png bytes"), ContentID: "cid:logo" });
  });

  it("sends what Resend documents, with the execution's id as the key of repeats", async () => {
    const { request, response } = documented("resend/send");
    const receiver = await openReceiver({ status: 200, body: JSON.stringify(response) });
    await attempt(sendEmail(), through("resend", receiver));
    await attempt(sendEmail(), through("resend", receiver));
    const [first, second] = receiver.received;
    expect([first?.url, first?.headers["idempotency-key"], first?.headers.authorization]).toEqual([
      "/emails",
      EXECUTION_ID,
      "Bearer re_key",
    ]);
    expect(second?.body).toBe(first?.body); // the same key with another body is refused there
    const sent = JSON.parse(first?.body ?? "");
    expect(undocumented(sent, request)).toEqual([]);
    expect(sent.to).toEqual(["ann@example.net", '"Bob" <bob@example.net>']);
  });

  it("sends what Mailgun documents, as a form", async () => {
    const { request, response } = documented("mailgun/send");
    const receiver = await openReceiver({ status: 200, body: JSON.stringify(response) });
    const output = await attempt(sendEmail(), through("mailgun", receiver));
    expect(output).toMatchObject({ provider_message_id: "<20261122000000.1.ABCDEF@example.org>" });
    const [one] = receiver.received;
    expect([one?.url, one?.headers.authorization]).toEqual([
      "/v3/mg.example.org/messages",
      `Basic ${base64("api:mg-key")}`,
    ]);
    const type = one?.headers["content-type"] ?? "";
    const form = await new Response(Uint8Array.from(one?.bytes ?? []), {
      headers: { "content-type": type },
    }).formData();
    expect([...new Set(form.keys())].filter((name) => !Object.hasOwn(request as object, name))).toEqual([]);
    expect(form.getAll("to")).toEqual(["ann@example.net", '"Bob" <bob@example.net>']);
    expect(form.get("h:Message-Id")).toBe(MESSAGE_ID);
    expect(form.get("h:Reply-To")).toBe("desk@example.org");
    const file = form.get("attachment") as File;
    expect([file.name, file.type, await file.text()]).toEqual(["a.pdf", "application/pdf", "pdf bytes"]);
    expect((form.get("inline") as File).name).toBe("logo");
  });

  it("sends what SES documents, as MIME, signed", async () => {
    const { request, response } = documented("ses/send");
    const receiver = await openReceiver({ status: 200, body: JSON.stringify(response) });
    const clock = new FakeClock({ wallMs: Date.parse("2026-01-02T03:04:05Z") });
    const given = through("ses", receiver, { clock });
    await attempt(sendEmail(), given);
    const [one] = receiver.received;
    expect(one?.url).toBe("/v2/email/outbound-emails");
    const sent = JSON.parse(one?.body ?? "");
    expect(undocumented(sent, request)).toEqual([]);
    expect(sent.Destination).toEqual({
      ToAddresses: ["ann@example.net", "bob@example.net"],
      CcAddresses: ["carl@example.net"],
      BccAddresses: ["hidden@example.net"],
    });
    const mime = Buffer.from(sent.Content.Raw.Data, "base64").toString("latin1");
    expect(mime).toContain(`Message-ID: ${MESSAGE_ID}`);
    expect(mime).not.toContain("hidden@example.net");
    expect(mime).toContain(base64("pdf bytes"));
    expect(one?.headers.authorization).toMatch(
      /^AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE\/20260102\/eu-central-1\/ses\/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature=[0-9a-f]{64}$/,
    );
    const again = signedByAws(
      {
        method: "POST",
        url: `${receiver.url}/v2/email/outbound-emails`,
        headers: { "content-type": "application/json" },
        body: one?.body ?? "",
      },
      { accessKeyId: "AKIDEXAMPLE", secretAccessKey: "secret" },
      { region: "eu-central-1", service: "ses", wallMs: clock.wallMs() },
    );
    expect(one?.headers.authorization).toBe(again["authorization"]);
  });

  it("signs as the examples of AWS do", () => {
    // From the test suite of Signature Version 4: get-vanilla and post-vanilla.
    const credentials = {
      accessKeyId: "AKIDEXAMPLE",
      secretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
    };
    const scope = { region: "us-east-1", service: "service", wallMs: Date.parse("2015-08-30T12:36:00Z") };
    const request = { url: "https://example.amazonaws.com/", headers: {}, body: "" };
    const signatureOf = (method: string): string | undefined =>
      signedByAws({ ...request, method }, credentials, scope)["authorization"]?.split("Signature=")[1];
    expect(signatureOf("GET")).toBe("5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
    expect(signatureOf("POST")).toBe("5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
  });

  it("is never without a text, which all of them need", async () => {
    const receiver = await openReceiver({ status: 200, body: "{}" });
    const input = { from: "a@example.org", to: "b@example.net", subject: "file", attachments: ["pdf"] };
    for (const provider of ["sendgrid", "postmark", "resend"] as const)
      await attempt(sendEmail(), through(provider, receiver, { input }));
    const bodies = receiver.received.map(({ body }) => JSON.parse(body));
    expect(bodies[0].content).toEqual([{ type: "text/plain", value: " " }]);
    expect([bodies[1].TextBody, bodies[2].text]).toEqual([" ", " "]);
  });
});

describe("refusals of mail providers", () => {
  it.each([
    ["resend", 429, { name: "rate_limit_exceeded" }, { "retry-after": "7" }, "refused"],
    ["resend", 409, { name: "concurrent_idempotent_requests" }, {}, "refused"],
    ["resend", 409, { name: "invalid_idempotent_request" }, {}, "permanent"],
    ["resend", 500, { name: "application_error" }, {}, "ambiguous"],
    ["postmark", 422, { ErrorCode: 406, Message: "canary inactive recipient" }, {}, "permanent"],
    ["postmark", 503, {}, {}, "refused"],
    ["sendgrid", 401, { errors: [{ message: "canary" }] }, {}, "permanent"],
    ["sendgrid", 500, {}, {}, "ambiguous"],
    ["mailgun", 400, { message: "canary 'to' is not a valid address" }, {}, "permanent"],
    ["ses", 400, {}, { "x-amzn-errortype": "MessageRejected:http://internal" }, "permanent"],
    ["ses", 429, {}, { "x-amzn-errortype": "TooManyRequestsException" }, "refused"],
    ["ses", 400, {}, { "x-amzn-errortype": "ThrottlingException" }, "refused"],
  ] as const)("of %s with %i %j", async (provider, status, body, headers, failure) => {
    const receiver = await openReceiver({ status, body: JSON.stringify(body), headers });
    const error = await failedAttempt(sendEmail(), through(provider, receiver));
    expect(error).toMatchObject({ failure, code: `http_${status}` });
    expect(error.message).not.toContain("canary");
    if (status === 429 && provider === "resend") expect(error.retryAfterMs).toBe(7_000);
    const reason = Object.values(body)[0] ?? Object.values(headers)[0];
    if (/^\w+$/.test(String(reason ?? ""))) expect(error.message).toContain(String(reason));
  });

  it("are not waited for where nothing may be asked: a private address, a message to nobody openly", async () => {
    const receiver = await openReceiver();
    for (const provider of Object.keys(CONFIGS) as Provider[]) {
      const egress = { allow: new AllowList([]) };
      const blocked = await failedAttempt(sendEmail(), through(provider, receiver, { egress }));
      expect(blocked).toMatchObject({ failure: "permanent", code: "blocked_destination" });
      const input = { ...MESSAGE, to: undefined };
      const nobody = await failedAttempt(sendEmail(), through(provider, receiver, { input }));
      expect(nobody).toMatchObject({ failure: "permanent", code: "no_recipient" });
    }
    expect(receiver.received).toEqual([]);
  });
});
