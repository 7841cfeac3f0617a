/** Syslog of forward-logs: frames by RFC 5424 and 6587, connections, and Debian's rsyslog as a real receiver over TCP and TLS. */
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createServer as createTlsServer } from "node:tls";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import type { LogEntry } from "../../../src/satellites/builtin/forward_logs/entry.ts";
import { forwardLogs } from "../../../src/satellites/builtin/forward_logs/forward_logs.ts";
import { syslogFrame, syslogMessage } from "../../../src/satellites/builtin/forward_logs/syslog.ts";
import { freePort } from "../../free_port.ts";
import { attempt, failedAttempt } from "./one_attempt.ts";

const logs = forwardLogs();
const TIME = "2026-11-21T23:00:00.123Z";
const HEADER = { facility: 16, hostname: "host", app_name: "app" };
const RSYSLOGD = "/usr/sbin/rsyslogd";
const MISSING = `rsyslog is not here (${RSYSLOGD}, and rsyslog-gnutls): apt-get install rsyslog rsyslog-gnutls`;

const folder = mkdtempSync(join(tmpdir(), "perigee-syslog-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

function entry(
  message: string,
  attributes: LogEntry["attributes"] = {},
  level: LogEntry["level"] = "info",
): LogEntry {
  return { wallMs: Date.parse(TIME), level, message, attributes };
}

async function listen(server: Server): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closing.push(() => server.close());
  return (server.address() as AddressInfo).port;
}

/** The messages of octet-counted frames; throws for other bytes. */
function messagesOf(bytes: Buffer): string[] {
  const messages: string[] = [];
  for (let at = 0; at < bytes.length; ) {
    const [head = "", length = ""] = /^([1-9]\d{0,6}) /.exec(bytes.toString("latin1", at, at + 8)) ?? [];
    if (head === "") throw new Error(`no frame at ${at}`);
    at += head.length;
    messages.push(bytes.toString("utf8", at, at + Number(length)));
    at += Number(length);
    if (at > bytes.length) throw new Error("torn frame");
  }
  return messages;
}

/** Keeps what it is sent until the other end closes. */
async function openCollector(onSocket: (socket: Socket) => void = () => undefined) {
  const connections: Buffer[] = [];
  const port = await listen(
    createServer((socket) => {
      const chunks: Buffer[] = [];
      socket.on("error", () => undefined);
      socket.on("data", (chunk: Buffer) => chunks.push(chunk));
      socket.on("end", () => connections.push(Buffer.concat(chunks)));
      onSocket(socket);
    }),
  );
  return { port, connections };
}

describe("a syslog message", () => {
  it("has the header of RFC 5424, a mark before UTF-8, and no text without a message", () => {
    expect(syslogMessage(entry("hi"), HEADER)).toBe(`<134>1 ${TIME} host app - - - hi`);
    expect(syslogMessage(entry(""), HEADER)).toBe(`<134>1 ${TIME} host app - - -`);
    expect(syslogMessage(entry("hä\0"), HEADER)).toBe(`<134>1 ${TIME} host app - - - \uFEFFhä\uFFFD`);
    const odd = { facility: 0, hostname: "a b\r\nc", app_name: "ä".repeat(100) };
    expect(syslogMessage(entry("x", {}, "critical"), odd)).toBe(
      `<2>1 ${TIME} a_b__c ${"_".repeat(48)} - - - x`,
    );
  });

  it("has attributes as structured data under the user's number, and after the message without one", () => {
    const attributes = { "a b=]": 'q"u\\o]te', n: 1, deep: { x: [1] } };
    const header = { ...HEADER, enterprise_number: 32_473 };
    expect(syslogMessage(entry("hi", attributes), header)).toBe(
      `<134>1 ${TIME} host app - - [perigee@32473 a_b__="q\\"u\\\\o\\]te" n="1" deep="{\\"x\\":[1\\]}"] hi`,
    );
    expect(syslogMessage(entry("hi", attributes), HEADER)).toBe(
      `<134>1 ${TIME} host app - - - hi ${JSON.stringify(attributes)}`,
    );
  });

  it("is framed by its length in bytes", () => {
    const texts = ["a", "ä\u{1f525}\n<1>1 - - - - - - forged", "x".repeat(9_000)];
    const bytes = Buffer.concat(texts.map((text) => syslogFrame(entry(text), HEADER)));
    expect(messagesOf(bytes)).toEqual(texts.map((text) => syslogMessage(entry(text), HEADER)));
  });
});

describe("a connection", () => {
  const input = { entries: Array.from({ length: 5 }, (_, n) => ({ time: TIME, message: `m${n}` })) };

  it("carries one batch, and the batch is taken when the receiver has closed its end", async () => {
    const { port, connections } = await openCollector();
    const config = { receiver: "syslog", host: "127.0.0.1", port, tls: false, batch: { entries: 2 } };
    expect(await attempt(logs, { config, input })).toEqual({ receiver: "syslog", entries: 5, batches: 3 });
    expect(connections.map((bytes) => messagesOf(bytes).length)).toEqual([2, 2, 1]);
    expect(messagesOf(connections[2] ?? Buffer.alloc(0))).toEqual([
      `<134>1 ${TIME} perigee perigee - - - m4`,
    ]);
  });

  it("that breaks, or is never closed, leaves the batch in doubt; one that is not made was not sent", async () => {
    const config = { receiver: "syslog", host: "127.0.0.1", tls: false, timeout_ms: 300 };
    const broken = await openCollector((socket) => socket.once("data", () => socket.resetAndDestroy()));
    expect(await failedAttempt(logs, { config: { ...config, port: broken.port }, input })).toMatchObject({
      failure: "ambiguous",
      code: "connection_lost",
    });
    const deaf = await listen(createServer({ allowHalfOpen: true }, (socket) => socket.resume()));
    expect(await failedAttempt(logs, { config: { ...config, port: deaf }, input })).toMatchObject({
      failure: "ambiguous",
      code: "timeout",
    });
    expect(await failedAttempt(logs, { config: { ...config, port: 1 }, input })).toMatchObject({
      failure: "not_sent",
      code: "connection_failed",
    });
    const inward = { ...config, host: "10.0.0.1", port: 514 };
    expect(await failedAttempt(logs, { config: inward, input })).toMatchObject({
      failure: "permanent",
      code: "blocked_destination",
    });
  });

  it("ends with the signal", async () => {
    const deaf = await listen(createServer({ allowHalfOpen: true }, (socket) => socket.resume()));
    const config = { receiver: "syslog", host: "127.0.0.1", port: deaf, tls: false };
    const stop = new AbortController();
    const ended = attempt(logs, { config, input, signal: stop.signal });
    setTimeout(() => stop.abort(new Error("cancelled")), 50);
    await expect(ended).rejects.toThrow("cancelled");
  });

  it("over TLS trusts the configured certificates, only under the host's name", async () => {
    const { certificate, key } = newCertificate("right", "IP:127.0.0.1");
    const wrong = newCertificate("wrong", "DNS:other.example.com");
    const received: Buffer[] = [];
    const serve = (cert: string, certKey: string): Promise<number> =>
      listen(
        createTlsServer({ cert, key: certKey }, (socket) => {
          socket.on("error", () => undefined);
          socket.on("data", (chunk: Buffer) => received.push(chunk));
        }),
      );
    const config = { receiver: "syslog", host: "127.0.0.1" };
    const port = await serve(certificate, key);
    expect(await attempt(logs, { config: { ...config, port, ca: certificate }, input })).toMatchObject({
      entries: 5,
    });
    expect(messagesOf(Buffer.concat(received))).toHaveLength(5);
    const wrongPort = await serve(wrong.certificate, wrong.key);
    for (const refused of [
      { ...config, port },
      { ...config, port: wrongPort, ca: wrong.certificate },
      { ...config, port, ca: "-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----" },
      { ...config, port, ca: certificate, certificate: "-----BEGIN nothing", key: "-----BEGIN nothing" },
    ])
      expect(await failedAttempt(logs, { config: refused, input })).toMatchObject({
        failure: "permanent",
        code: "tls_failed",
      });
    const plain = await openCollector((socket) => socket.end("no TLS here\n"));
    expect(await failedAttempt(logs, { config: { ...config, port: plain.port }, input })).toMatchObject({
      failure: "not_sent",
      code: "tls_failed",
    });
    expect(received.length).toBeGreaterThan(0);
  });
});

function newCertificate(name: string, subject: string): { certificate: string; key: string } {
  const [cert, key] = [join(folder, `${name}.pem`), join(folder, `${name}.key`)];
  const kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
  const words = ["req", "-x509", ...kind, "-subj", "/CN=test", "-addext", `subjectAltName=${subject}`];
  execFileSync("openssl", [...words, "-keyout", key, "-out", cert], { stdio: "ignore" });
  return { certificate: readFileSync(cert, "utf8"), key: readFileSync(key, "utf8") };
}

const hasTls = (): boolean =>
  readdirSync("/usr/lib").some((name) => existsSync(`/usr/lib/${name}/rsyslog/lmnsd_gtls.so`));
const isHere = existsSync(RSYSLOGD) && hasTls();

it("has rsyslog to send to, or says that it was not tested", () => {
  if (!isHere) process.stderr.write(`\nSYSLOG WAS NOT TESTED AGAINST A REAL RECEIVER: ${MISSING}\n\n`);
  expect(isHere || process.env["TEST_COUNTERPARTS"] !== "required", MISSING).toBe(true);
});

describe.skipIf(!isHere)("rsyslog", () => {
  let child: ChildProcess;
  let ports: { readonly tcp: number; readonly tls: number };
  let ca: string;
  const out = join(folder, "messages");

  beforeAll(async () => {
    const { certificate } = newCertificate("rsyslog", "IP:127.0.0.1");
    ca = certificate;
    ports = { tcp: await freePort(), tls: await freePort() };
    const config = join(folder, "rsyslog.conf");
    writeFileSync(config, rsyslogConfig(ports, out));
    child = spawn(RSYSLOGD, ["-n", "-f", config, "-i", join(folder, "pid")], { stdio: "ignore" });
    await until(async () => (await canConnect(ports.tcp)) && (await canConnect(ports.tls)));
  });
  afterAll(async () => {
    const over = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await over;
  });

  it.each(["tcp", "tls"] as const)("reads over %s what was forwarded, field by field", async (kind) => {
    const secure = kind === "tls" ? { ca } : { tls: false };
    const config = {
      receiver: "syslog",
      host: "127.0.0.1",
      port: ports[kind],
      ...secure,
      batch: { entries: 300 },
    };
    const settings = { hostname: "batch-1", app_name: kind, facility: 20, enterprise_number: 32_473 };
    const entries = Array.from({ length: 1_000 }, (_, n) => ({
      time: TIME,
      level: n === 0 ? "error" : "info",
      message: n === 1 ? "two\nlines ä" : `line ${n}`,
      attributes: { n, text: 'a]"b' },
    }));
    expect(await attempt(logs, { config: { ...config, ...settings }, input: { entries } })).toEqual({
      receiver: "syslog",
      entries: 1_000,
      batches: 4,
    });
    const ofKind = (): string[] =>
      existsSync(out)
        ? readFileSync(out, "utf8")
            .split("\n")
            .filter((line) => line.split("|")[4] === kind)
        : [];
    await until(async () => ofKind().length >= 1_000);
    const lines = ofKind();
    expect(lines).toHaveLength(1_000);
    const data = (n: number): string => `[perigee@32473 n="${n}" text="a\\]\\"b"]`;
    expect(lines[0]).toBe(`163|1|${TIME}|batch-1|${kind}|${data(0)}|line 0`);
    expect(lines[1]).toBe(`166|1|${TIME}|batch-1|${kind}|${data(1)}|\uFEFFtwo#012lines ä`);
    expect(lines[999]).toBe(`166|1|${TIME}|batch-1|${kind}|${data(999)}|line 999`);
  });
});

function rsyslogConfig({ tcp, tls }: { readonly tcp: number; readonly tls: number }, out: string): string {
  const certificate = join(folder, "rsyslog.pem");
  const secure = 'streamDriver.name="gtls" streamDriver.mode="1" streamDriver.authMode="anon"';
  return [
    `global(workDirectory="${folder}" defaultNetstreamDriverCAFile="${certificate}" defaultNetstreamDriverCertFile="${certificate}" defaultNetstreamDriverKeyFile="${join(folder, "rsyslog.key")}")`,
    'module(load="imtcp")',
    `input(type="imtcp" address="127.0.0.1" port="${tcp}")`,
    `input(type="imtcp" address="127.0.0.1" port="${tls}" ${secure})`,
    'template(name="fields" type="string" string="%pri%|%protocol-version%|%timestamp:::date-rfc3339%|%hostname%|%app-name%|%structured-data%|%msg%\\n")',
    `action(type="omfile" file="${out}" template="fields")`,
    "",
  ].join("\n");
}

function canConnect(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1");
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });
}

async function until(isTrue: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; tries < 400; tries++) {
    if (await isTrue()) return;
    await sleep(25);
  }
  throw new Error("it did not come about in 10 s");
}
