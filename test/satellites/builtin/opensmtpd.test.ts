/**
 * `send-email` to OpenSMTPD, the mail server of OpenBSD, in the foreground as a process of the test: its own refusals, and the
 * message as it lies in a mailbox then. Without TLS: no client can end a handshake with the package of Debian 12
 * (6.8.0p2 on OpenSSL 3), whose process for private keys fails; `send_email_smtp.test.ts` has TLS.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { chmodSync, chownSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, expect, it, vi } from "vitest";
import { sendEmail } from "../../../src/satellites/builtin/send_email/send_email.ts";
import { describeCounterpart, pathOf } from "../../counterpart.ts";
import { filesBelow } from "../../files_below.ts";
import { freePort } from "../../free_port.ts";
import { headerOf } from "./mail_server.ts";
import { attempt, EXECUTION_ID, failedAttempt } from "./one_attempt.ts";

const SMTPD = pathOf("smtpd");
/** It changes to users of its own. */
const isRoot = process.getuid?.() === 0;
const isThere = SMTPD !== undefined && isRoot;

/** Of Debian, whose mail is nobody's. */
const NOBODY = 65_534;
const MESSAGE = {
  from: "reports@example.org",
  to: ["ann@example.net", "bob@example.net"],
  bcc: "carl@elsewhere.example",
  subject: "Grüße",
  text: "one\n.two\n..\nthree",
};

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
  let told = "";

  beforeAll(async () => {
    dir = mkdtempSync(join(tmpdir(), "perigee-smtpd-"));
    port = await freePort();
    chmodSync(dir, 0o755);
    mkdirSync(join(dir, "box"));
    chownSync(join(dir, "box"), NOBODY, NOBODY);
    writeFileSync(
      join(dir, "smtpd.conf"),
      [
        "smtp max-message-size 100K",
        `listen on 127.0.0.1 port ${port} hostname mail.example.net`,
        'table users { "@" = "nobody" }',
        `action "store" maildir "${join(dir, "box")}" user nobody virtual <users>`,
        'match from any for domain "example.net" action "store"',
        "",
      ].join("\n"),
    );
    child = spawn(SMTPD ?? "", ["-d", "-f", join(dir, "smtpd.conf")], { stdio: ["ignore", "pipe", "pipe"] });
    for (const stream of [child.stdout, child.stderr])
      stream?.on("data", (chunk) => {
        told += chunk;
      });
    await vi.waitFor(async () => expect(await greeting(port), told).toContain("220 mail.example.net"), {
      timeout: 60_000,
      interval: 100,
    });
  }, 20_000);

  afterAll(async () => {
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    await ended;
    rmSync(dir, { recursive: true, force: true });
  });

  /** Mailboxes have the line ends of the system. */
  const delivered = (): string[] =>
    filesBelow(join(dir, "box"))
      .filter((path) => dirname(path).endsWith("/new"))
      .map((path) => readFileSync(path, "latin1").replace(/\r?\n/g, "\r\n"));

  const config = (more: object = {}): object => ({
    provider: "smtp",
    host: "127.0.0.1",
    port,
    security: "none",
    ...more,
  });

  it("takes a message, refuses who is not at home there, and delivers it as it was", async () => {
    const output = await attempt(sendEmail({ ports: [port] }), { input: MESSAGE, config: config() });
    expect(output).toMatchObject({
      accepted: ["ann@example.net", "bob@example.net"],
      rejected: [{ address: "carl@elsewhere.example", status: 550 }],
    });
    await vi.waitFor(() => expect(delivered(), told).toHaveLength(2), { timeout: 60_000, interval: 50 });
    const texts = delivered();
    expect(texts.map((raw) => headerOf({ raw }, "Delivered-To")).sort()).toEqual([
      "ann@example.net",
      "bob@example.net",
    ]);
    for (const raw of texts) {
      expect(headerOf({ raw }, "Message-ID")).toBe(`<${EXECUTION_ID}@example.org>`);
      expect(headerOf({ raw }, "To")).toBe("ann@example.net, bob@example.net");
      expect(raw).toContain("one\r\n.two\r\n..\r\nthree");
      expect(raw).not.toContain("elsewhere.example");
    }
  });

  it("refuses a message to nobody it knows, one too large, and a client that requires TLS, each for good", async () => {
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
    await vi.waitFor(() => expect(count(/mda delivery .* result=Ok/g)).toBe(40), { timeout: 60_000 });
    expect(count(/smtp connected/g)).toBe(4);
  });
});
