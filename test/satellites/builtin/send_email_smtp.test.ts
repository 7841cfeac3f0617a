/** `send-email` through mail servers. */
import { createHash } from "node:crypto";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { describe, expect, it } from "vitest";
import { AllowList } from "../../../src/egress/address.ts";
import { sendEmail } from "../../../src/satellites/builtin/send_email/send_email.ts";
import type { Files } from "../../../src/tasks/files/files.ts";
import { CERTIFICATE, headerOf, type MailServer, openMailServer, PASSWORD } from "./mail_server.ts";
import { type Attempt, attempt, callOf, EXECUTION_ID, failedAttempt, MemoryNotes } from "./one_attempt.ts";

const MESSAGE = {
  from: "Perigee Reports <reports@example.org>",
  to: ["ann@example.net", { name: "Bob, the second", address: "bob@example.net" }],
  cc: "carl@example.net",
  bcc: "hidden@example.net",
  reply_to: "desk@example.org",
  subject: "Ünïcode report",
  text: "Grüße\n.\nend",
  html: "<p>Grüße</p>",
};
const TLS = { ca: CERTIFICATE };

function configFor({ port }: Pick<MailServer, "port">, more: object = TLS): object {
  return { provider: "smtp", host: "127.0.0.1", port, ...more };
}

function to(server: MailServer, given: Partial<Attempt> & { more?: object } = {}): Attempt {
  const { more, ...rest } = given;
  return { input: MESSAGE, config: configFor(server, more), ...rest };
}

const satellite = (port: number) => sendEmail({ ports: [port] });

describe("send-email over SMTP", () => {
  it("hands a message over to every recipient, and shows those of bcc to nobody", async () => {
    const server = await openMailServer();
    const output = await attempt(satellite(server.port), to(server));
    expect(output).toMatchObject({
      message_id: `<${EXECUTION_ID}@example.org>`,
      provider: "smtp",
      accepted: ["ann@example.net", "bob@example.net", "carl@example.net", "hidden@example.net"],
      rejected: [],
    });
    const [mail] = server.taken;
    expect(mail).toMatchObject({
      from: "reports@example.org",
      to: ["ann@example.net", "bob@example.net", "carl@example.net", "hidden@example.net"],
      isSecure: true,
    });
    if (mail === undefined) return;
    expect(headerOf(mail, "Message-ID")).toBe(`<${EXECUTION_ID}@example.org>`);
    expect(headerOf(mail, "To")).toBe('ann@example.net, "Bob, the second" <bob@example.net>');
    expect(headerOf(mail, "Reply-To")).toBe("desk@example.org");
    expect(headerOf(mail, "Subject")).toBe("=?UTF-8?Q?=C3=9Cn=C3=AFcode_report?=");
    expect(mail.raw).not.toContain("hidden@example.net");
    expect(mail.raw).toMatch(/Gr=C3=BC=C3=9Fe\r\n\.\r\nend/);
  });

  it("has the same Message-ID in every attempt, another in another execution", async () => {
    const server = await openMailServer();
    await attempt(satellite(server.port), to(server));
    await attempt(satellite(server.port), to(server));
    await attempt(satellite(server.port), to(server, { executionId: "other" }));
    const ids = server.taken.map((mail) => headerOf(mail, "Message-ID"));
    expect(ids[0]).toBe(ids[1]);
    expect(ids[2]).toBe("<other@example.org>");
  });

  it("attaches files of the project as they are, and shows some inside the HTML", async () => {
    const server = await openMailServer();
    const pdf = Buffer.from(Array.from({ length: 100_000 }, (_, index) => (index * 7) % 256));
    await attempt(
      satellite(server.port),
      to(server, {
        input: {
          ...MESSAGE,
          html: '<img src="cid:logo">',
          attachments: [
            "plain",
            { file_id: "pdf", filename: "Bericht ä.pdf", content_type: "application/pdf", bytes: 1 },
            { file_id: "png", filename: "logo.png", content_type: "image/png", content_id: "logo" },
          ],
        },
        files: { plain: "a\nb", pdf, png: "png" },
      }),
    );
    const raw = server.taken[0]?.raw ?? "";
    expect(raw).toContain("filename=a.jsonl");
    expect(raw).toMatch(/Content-ID: <logo>/i);
    expect(raw).toContain("filename*0*=utf-8''Bericht%20%C3%A4.pdf");
    const found = raw
      .split(/\r\n--[^\r\n]+/)
      .find((part) => part.includes("application/pdf"))
      ?.split("\r\n\r\n")[1];
    expect(Buffer.from(found ?? "", "base64")).toEqual(pdf);
  });

  it("sends own headers", async () => {
    const server = await openMailServer();
    const headers = { "List-Unsubscribe": "<https://example.org/u>", "X-Campaign": "spring" };
    await attempt(satellite(server.port), to(server, { input: { ...MESSAGE, headers } }));
    const [mail] = server.taken;
    if (mail === undefined) throw new Error("no mail");
    expect(headerOf(mail, "List-Unsubscribe")).toBe("<https://example.org/u>");
    expect(headerOf(mail, "X-Campaign")).toBe("spring");
  });

  it("signs by DKIM", async () => {
    const server = await openMailServer();
    const { generateKeyPairSync } = await import("node:crypto");
    const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2_048 });
    const private_key = privateKey.export({ type: "pkcs8", format: "pem" });
    const dkim = { domain: "example.org", selector: "s1", private_key };
    await attempt(satellite(server.port), to(server, { more: { ...TLS, dkim } }));
    const [mail] = server.taken;
    if (mail === undefined) throw new Error("no mail");
    const signature = headerOf(mail, "DKIM-Signature") ?? "";
    expect(signature).toMatch(/d=example\.org;.*s=s1;/);
    const body = mail.raw.slice(mail.raw.indexOf("\r\n\r\n") + 4);
    const relaxed = `${body
      .replace(/[ \t]+(?=\r\n)/g, "")
      .replace(/[ \t]+/g, " ")
      .replace(/(\r\n)+$/, "")}\r\n`;
    const hash = createHash("sha256").update(relaxed, "latin1").digest("base64");
    expect(signature.replace(/ /g, "")).toContain(`bh=${hash}`);
  });
});

describe("security of send-email over SMTP", () => {
  const login = { username: "robot", password: PASSWORD };

  it("signs in over STARTTLS, and over TLS from the first byte", async () => {
    const starttls = await openMailServer({ authOptional: false });
    await attempt(satellite(starttls.port), to(starttls, { more: { ...TLS, ...login } }));
    const tls = await openMailServer({ secure: true, authOptional: false });
    await attempt(satellite(tls.port), to(tls, { more: { ...TLS, ...login, security: "tls" } }));
    for (const { taken } of [starttls, tls]) expect(taken).toMatchObject([{ user: "robot", isSecure: true }]);
  });

  it("refuses a server without TLS before it says anything", async () => {
    const server = await openMailServer({ disabledCommands: ["STARTTLS"], allowInsecureAuth: true });
    const error = await failedAttempt(satellite(server.port), to(server, { more: { ...TLS, ...login } }));
    expect(error).toMatchObject({ failure: "permanent", code: "tls_required" });
    expect([server.logins, server.taken]).toEqual([[], []]);
  });

  it("refuses a certificate that nobody it knows has signed", async () => {
    for (const secure of [true, false]) {
      const server = await openMailServer({ secure });
      const more = { ...login, security: secure ? "tls" : "starttls" };
      const error = await failedAttempt(satellite(server.port), to(server, { more }));
      expect(error).toMatchObject({ failure: "permanent", code: "tls_failed" });
      expect(server.logins).toEqual([]);
    }
  });

  it("is sent without verified TLS only where the config says so, and never with a password", async () => {
    const plain = await openMailServer({ disabledCommands: ["STARTTLS"] });
    await attempt(satellite(plain.port), to(plain, { more: { security: "opportunistic" } }));
    await attempt(satellite(plain.port), to(plain, { more: { security: "none" } }));
    const offering = await openMailServer();
    await attempt(satellite(offering.port), to(offering, { more: { security: "opportunistic" } }));
    expect(plain.taken.map(({ isSecure }) => isSecure)).toEqual([false, false]);
    expect(offering.taken.map(({ isSecure }) => isSecure)).toEqual([true]);
    for (const security of ["opportunistic", "none"])
      await expect(
        attempt(satellite(plain.port), to(plain, { more: { security, ...login } })),
      ).rejects.toThrow("must be tls or starttls where there is a password");
  });

  it("fails for good with a wrong password, which it does not tell", async () => {
    const server = await openMailServer();
    const more = { ...TLS, username: "robot", password: "canary-password" };
    const error = await failedAttempt(satellite(server.port), to(server, { more }));
    expect(error).toMatchObject({ failure: "permanent", code: "authentication_failed" });
    expect(error.message).not.toContain("canary");
    expect(server.logins).toEqual(["robot canary-password"]);
  });

  it("reaches no private address in any spelling, and no port that is not for mail", async () => {
    const server = await openMailServer();
    const egress = { allow: new AllowList([]), resolve: async () => ["127.0.0.1"] };
    for (const host of ["127.0.0.1", "2130706433", "0x7f.1", "::1", "localhost", "mail.test.com"]) {
      const config = { provider: "smtp", host, port: server.port };
      const error = await failedAttempt(satellite(server.port), { input: MESSAGE, config, egress });
      expect(error, host).toMatchObject({ failure: "permanent", code: "blocked_destination" });
    }
    expect(await failedAttempt(sendEmail(), to(server))).toMatchObject({ code: "blocked_destination" });
    expect(server.connections()).toBe(0);
  });
});

describe("refusals of mail servers", () => {
  it("list in the output those that are refused for good, and the others get it", async () => {
    const server = await openMailServer();
    server.refusals.set("bob@example.net", [550, "5.1.1 no such user"]);
    const output = await attempt(satellite(server.port), to(server));
    expect(output).toMatchObject({
      accepted: ["ann@example.net", "carl@example.net", "hidden@example.net"],
      rejected: [{ address: "bob@example.net", status: 550, message: "550 5.1.1 no such user" }],
    });
  });

  it("fail for good when nobody is left", async () => {
    const server = await openMailServer();
    server.refusals.set("ann@example.net", [550, "5.1.1 no such user"]);
    const input = { ...MESSAGE, to: "ann@example.net", cc: undefined, bcc: undefined };
    const error = await failedAttempt(satellite(server.port), to(server, { input }));
    expect(error).toMatchObject({ failure: "permanent", code: "smtp_550" });
    expect(error.message).toContain("no such user");
  });

  it("put recipients off, and only those are in the next attempt", async () => {
    const server = await openMailServer();
    const notes = new MemoryNotes();
    const one = satellite(server.port);
    const call = { ...(await callOf(one, to(server, { notes }))), deadlineWallMs: Date.now() + 3_600_000 };
    server.refusals.set("bob@example.net", [451, "4.7.1 greylisted"]);
    server.refusals.set("carl@example.net", [550, "5.1.1 no such user"]);
    const putOff = { failure: "refused", code: "smtp_451", retryAfterMs: 60_000 };
    await expect(one.run(call)).rejects.toMatchObject(putOff);
    await expect(one.run({ ...call, attempt: 3 })).rejects.toMatchObject({
      ...putOff,
      retryAfterMs: 240_000,
    });
    server.refusals.clear();
    const output = await one.run({ ...call, attempt: 4 });
    expect(server.taken.map((mail) => mail.to)).toEqual([
      ["ann@example.net", "hidden@example.net"],
      ["bob@example.net"],
    ]);
    expect(output).toMatchObject({
      accepted: ["ann@example.net", "hidden@example.net", "bob@example.net"],
      rejected: [{ address: "carl@example.net", status: 550 }],
    });
  });

  it("that last are named in the output once no attempt is left", async () => {
    const server = await openMailServer();
    server.refusals.set("bob@example.net", [451, "4.7.1 greylisted"]);
    const one = satellite(server.port);
    const output = await one.run({ ...(await callOf(one, to(server))), attempt: 8 });
    expect(output).toMatchObject({ rejected: [{ address: "bob@example.net", status: 451 }] });
    const late = { ...(await callOf(one, to(server))), deadlineWallMs: Date.now() + 30_000 };
    expect(await one.run(late)).toMatchObject({ rejected: [{ address: "bob@example.net" }] });
  });

  it.each([
    ["the sender, for good", "reports@example.org", 550, "permanent"],
    ["the sender, for now", "reports@example.org", 421, "refused"],
    ["the message, for good", "data", 554, "permanent"],
    ["the message, for now", "data", 452, "refused"],
  ])("of %s", async (_what, name, status, failure) => {
    const server = await openMailServer();
    server.refusals.set(name, [status, "because"]);
    const error = await failedAttempt(satellite(server.port), to(server));
    expect(error).toMatchObject({ failure, code: `smtp_${status}` });
    expect(server.taken).toEqual([]);
  });

  it("of a greeting", async () => {
    for (const [status, failure] of [
      [554, "permanent"],
      [421, "refused"],
    ] as const) {
      const server = await scripted((socket) => socket.end(`${status} go away\r\n`));
      expect(await failedAttempt(satellite(server.port), to(server as MailServer))).toMatchObject({
        failure,
        code: `smtp_${status}`,
      });
    }
  });
});

/** A server that says what the test says, line by line. */
async function scripted(onConnection: (socket: Socket) => void): Promise<{ readonly port: number }> {
  const server = createServer((socket) => onConnection(socket.on("error", () => undefined)));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  server.unref();
  return { port: (server.address() as AddressInfo).port };
}

/** Takes everything up to the message, and cuts the connection there. */
function cuttingAt(end: "DATA" | "."): (socket: Socket) => void {
  return (socket) => {
    let text = "";
    socket.write("220 ready\r\n");
    socket.on("data", (chunk) => {
      text += chunk;
      const lines = text.split("\r\n");
      text = lines.pop() ?? "";
      for (const line of lines) {
        if (line === end || (end === "DATA" && line.startsWith("Subject:"))) socket.destroy();
        else if (/^DATA$/i.test(line)) socket.write("354 go on\r\n");
        else if (/^(EHLO|MAIL|RCPT)/i.test(line)) socket.write("250 fine\r\n");
      }
    });
  };
}

describe("a connection that is lost", () => {
  const more = { security: "none" };

  it("after the message is ambiguous, and repeated only if the config says so", async () => {
    const server = await scripted(cuttingAt("."));
    const given = to(server as MailServer, { more });
    expect(await failedAttempt(satellite(server.port), given)).toMatchObject({
      failure: "ambiguous",
      code: "connection_lost",
    });
    const one = sendEmail();
    const isRepeatable = one.isRepeatable as (call: object) => boolean;
    expect(isRepeatable({ input: {}, config: { provider: "smtp", repeat_ambiguous: false } })).toBe(false);
    expect(isRepeatable({ input: {}, config: { provider: "smtp", repeat_ambiguous: true } })).toBe(true);
    expect(isRepeatable({ input: {}, config: { provider: "resend", repeat_ambiguous: false } })).toBe(true);
  });

  it("before the message is whole has sent nothing", async () => {
    const server = await scripted(cuttingAt("DATA"));
    const input = { ...MESSAGE, attachments: ["large"] };
    const files = { large: Buffer.alloc(8 * 1024 * 1024) };
    const given = to(server as MailServer, { more, input, files });
    expect(await failedAttempt(satellite(server.port), given)).toMatchObject({ failure: "not_sent" });
  });

  it("where nobody listens has sent nothing", async () => {
    const given = to({ port: 1 } as MailServer, { more });
    expect(await failedAttempt(sendEmail({ ports: [1] }), given)).toMatchObject({
      failure: "not_sent",
      code: "connection_failed",
    });
  });

  it("by silence is a timeout", async () => {
    const server = await scripted((socket) => {
      socket.write("220 ready\r\n");
      socket.once("data", () => socket.write("250 fine\r\n"));
    });
    const given = to(server as MailServer, { more: { ...more, timeout_ms: 1_000 } });
    expect(await failedAttempt(satellite(server.port), given)).toMatchObject({
      failure: "not_sent",
      code: "timeout",
    });
  });

  it("by the signal ends at once with its reason", async () => {
    const server = await scripted((socket) => socket.write("220 ready\r\n"));
    const controller = new AbortController();
    const given = to(server as MailServer, { more, signal: controller.signal });
    const ended = attempt(satellite(server.port), given);
    setTimeout(() => controller.abort(new Error("cancelled")), 50);
    await expect(ended).rejects.toThrow("cancelled");
  });
});

describe("attachments", () => {
  it("that are not there, or too large together, fail before anything is sent", async () => {
    const server = await openMailServer();
    const input = { ...MESSAGE, attachments: ["one", "two"] };
    const missing = await failedAttempt(satellite(server.port), to(server, { input, files: { one: "x" } }));
    expect(missing).toMatchObject({ failure: "permanent", code: "file_not_found" });
    const files = { one: "x".repeat(6), two: "y".repeat(5) };
    const more = { ...TLS, attachment_bytes_max: 10 };
    const large = await failedAttempt(satellite(server.port), to(server, { input, files, more }));
    expect(large).toMatchObject({ failure: "permanent", code: "too_large" });
    expect(server.connections()).toBe(0);
  });

  it("that cannot be read to their end leave no message at the server", async () => {
    const server = await openMailServer();
    const one = satellite(server.port);
    const input = { ...MESSAGE, attachments: ["one"] };
    const call = await callOf(one, to(server, { input, files: { one: "x".repeat(500_000) } }));
    const files: Files = {
      ...call.files,
      async *read(...words) {
        yield* call.files.read(...words);
        throw new Error("the disk is gone");
      },
    };
    await expect(one.run({ ...call, files })).rejects.toMatchObject({ failure: "not_sent" });
    expect(server.taken).toEqual([]);
  });
});

describe("sessions", () => {
  it("are kept for the next message to the same server, and only for who signs in alike", async () => {
    const server = await openMailServer();
    const one = satellite(server.port);
    await attempt(one, to(server));
    await attempt(one, to(server));
    expect(server.connections()).toBe(1);
    await attempt(one, to(server, { more: { ...TLS, username: "robot", password: PASSWORD } }));
    expect(server.connections()).toBe(2);
    expect(server.taken.map(({ user }) => user)).toEqual([undefined, undefined, "robot"]);
  });

  it("that the server has closed are not used again", async () => {
    const server = await openMailServer();
    const one = satellite(server.port);
    await attempt(one, to(server));
    server.cut();
    await new Promise((resolve) => setTimeout(resolve, 50));
    await attempt(one, to(server));
    expect([server.taken.length, server.connections()]).toEqual([2, 2]);
  });
});
