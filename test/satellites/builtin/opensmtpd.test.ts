/**
 * `send-email` to OpenSMTPD, the mail server of OpenBSD, in the foreground as a process of the test: its own refusals, and the
 * message as it comes out on the other side of it. Without TLS: no client can end a handshake with the package of Debian 12
 * (6.8.0p2 on OpenSSL 3), whose process for private keys fails; `send_email_smtp.test.ts` has TLS.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { sendEmail } from "../../../src/satellites/builtin/send_email.ts";
import { describeCounterpart, pathOf } from "./counterpart.ts";
import { headerOf, openMailServer } from "./mail_server.ts";
import { attempt, failedAttempt } from "./one_attempt.ts";

const SMTPD = pathOf("smtpd");
/** It changes to users of its own. */
const isRoot = process.getuid?.() === 0;
const isThere = SMTPD !== undefined && isRoot;

const MESSAGE = {
  from: "reports@example.org",
  to: ["ann@example.net", "bob@example.net"],
  bcc: "carl@elsewhere.example",
  subject: "Grüße",
  text: "one\n.two\n..\nthree",
};

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

async function greeting(port: number): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  try {
    for await (const chunk of socket) return String(chunk);
    return "";
  } finally {
    socket.destroy();
  }
}

describeCounterpart("OpenSMTPD", { isThere, install: "apt-get install opensmtpd" }, () => {
  let dir: string;
  let child: ChildProcess;
  let port: number;
  let relayPort: number;
  let told = "";
  /** Where it passes messages on to. There before it starts: what an earlier run has left in its queue goes at once. */
  let next: Awaited<ReturnType<typeof openMailServer>>;

  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), "perigee-smtpd-"));
    [port, relayPort] = [await freePort(), await freePort()];
    writeFileSync(
      join(dir, "smtpd.conf"),
      [
        "smtp max-message-size 100K",
        `listen on 127.0.0.1 port ${port} hostname mail.example.net`,
        `action "out" relay host smtp+notls://127.0.0.1:${relayPort}`,
        'match from any for domain "example.net" action "out"',
        "",
      ].join("\n"),
    );
    next = await openMailServer({ port: relayPort, disabledCommands: ["STARTTLS", "AUTH"] });
    child = spawn(SMTPD ?? "", ["-d", "-f", join(dir, "smtpd.conf")], { stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [child.stdout, child.stderr])
      stream?.on("data", (chunk) => {
        told += chunk;
      });
    await vi.waitFor(async () => expect(await greeting(port), told).toContain("220 mail.example.net"), {
      timeout: 10_000,
      interval: 100,
    });
  }, 20_000);

  afterAll(async () => {
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    await ended;
    rmSync(dir, { recursive: true, force: true });
  });

  const config = (more: object = {}): object => ({
    provider: "smtp",
    host: "127.0.0.1",
    port,
    security: "none",
    ...more,
  });

  it("takes a message, refuses who it does not relay for, and passes it on as it was", async () => {
    const executionId = randomUUID();
    const given = { input: MESSAGE, config: config(), executionId };
    const output = await attempt(sendEmail({ ports: [port] }), given);
    expect(output).toMatchObject({
      accepted: ["ann@example.net", "bob@example.net"],
      rejected: [{ address: "carl@elsewhere.example", status: 550 }],
    });
    const id = `<${executionId}@example.org>`;
    const own = () => next.taken.filter((mail) => headerOf(mail, "Message-ID") === id);
    const reached = (): string[] =>
      own()
        .flatMap((mail) => mail.to)
        .sort();
    await vi.waitFor(() => expect(reached(), told).toEqual(["ann@example.net", "bob@example.net"]), {
      timeout: 15_000,
      interval: 50,
    });
    for (const mail of own()) {
      expect(mail.raw).toContain("one\r\n.two\r\n..\r\nthree");
      expect(mail.raw).not.toContain("elsewhere.example");
    }
  });

  it("refuses a message to nobody it knows, one too large, and a client that wants TLS, each for good", async () => {
    const satellite = sendEmail({ ports: [port] });
    const failed = async (more: object, input: object = {}, files = {}): Promise<[string, string]> => {
      const given = { input: { ...MESSAGE, ...input }, config: config(more), files };
      const { failure, code } = await failedAttempt(satellite, given);
      return [failure, code];
    };
    expect(await failed({}, { to: "carl@elsewhere.example" })).toEqual(["permanent", "smtp_550"]);
    const large = await failed({}, { attachments: ["large"] }, { large: "x".repeat(300_000) });
    expect(large).toEqual(["permanent", expect.stringMatching(/^smtp_55[24]$/)]);
    expect(await failed({ security: "starttls" })).toEqual(["permanent", "tls_required"]);
  });

  it("takes many messages over a few connections", async () => {
    const satellite = sendEmail({ ports: [port] });
    const input = { ...MESSAGE, to: "ann@example.net", bcc: undefined };
    const before = told.length;
    const count = (what: RegExp): number => told.slice(before).match(what)?.length ?? 0;
    for (let index = 0; index < 40; index += 4)
      await Promise.all(
        [0, 1, 2, 3].map((more) =>
          attempt(satellite, { input, config: config(), executionId: `execution-${index + more}` }),
        ),
      );
    await vi.waitFor(() => expect(count(/smtp message msgid=/g)).toBe(40), { timeout: 5_000 });
    expect(count(/smtp connected/g)).toBe(4);
  });
});
