/** Faults of mail by their numbers. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseMailbox } from "../../src/satellites/builtin/send_email/mail_address.ts";
import { sendEmail } from "../../src/satellites/builtin/send_email/send_email.ts";
import { type MailServer, openMailServer, type TakenMail } from "../satellites/builtin/mail_server.ts";
import { attempt } from "../satellites/builtin/one_attempt.ts";

const MESSAGE = { from: "a@example.org", to: "b@example.net", subject: "s", text: "t" };
const satellite = sendEmail();

/** Paths of what is refused, at submission. */
async function refused(input: object): Promise<readonly string[]> {
  const result = await satellite.input["~standard"].validate({ ...MESSAGE, ...input });
  return (result.issues ?? []).map(({ path }) => (path ?? []).map(String).join("."));
}

function config({ port }: MailServer): object {
  return { provider: "smtp", host: "127.0.0.1", port, security: "none" };
}

const BREAKS = ["\r\n", "\n", "\r", "\0", "\u2028", "\u000b", "\u0085"];

describe("fault 98: a mail that would be more than one", () => {
  it("98: line ends and NUL are refused in everything that becomes a header, at submission", async () => {
    for (const end of BREAKS) {
      const text = `x${end}Bcc: victim@example.net`;
      const fields: [string, object][] = [
        ["subject", { subject: text }],
        ["from", { from: `${text} <a@example.org>` }],
        ["from", { from: { name: text, address: "a@example.org" } }],
        ["to", { to: `a@example.org${end}x` }],
        ["to", { to: [`"${text}" <a@example.org>`] }],
        ["cc", { cc: { name: text, address: "a@example.org" } }],
        ["bcc", { bcc: `a@example.org${end},b@example.org` }],
        ["reply_to", { reply_to: `a@example.org>${end}RCPT TO:<b@example.org` }],
        ["headers", { headers: { "X-One": text } }],
        ["headers", { headers: { [`X-One${end}Bcc`]: "v@example.net" } }],
        ["attachments", { attachments: [{ file_id: "f", filename: text }] }],
        ["attachments", { attachments: [{ file_id: "f", content_type: `text/plain${end}X: y` }] }],
        ["attachments", { attachments: [{ file_id: "f", content_id: `id${end}X: y` }] }],
      ];
      for (const [field, input] of fields) {
        const paths = await refused(input);
        expect([JSON.stringify(input), paths.some((path) => path.startsWith(field))]).toEqual([
          JSON.stringify(input),
          true,
        ]);
      }
    }
  });

  it("98: one text is one recipient, in any form", async () => {
    for (const to of [
      "a@example.org, b@example.org",
      "a@example.org;b@example.org",
      "a@example.org b@example.org",
      "group: a@example.org, b@example.org;",
      '"a@example.org, x" <b@example.org>, c@example.org',
      "<a@example.org> <b@example.org>",
      "a@example.org(b@example.org)",
      '"evil@x.org"@example.org',
      "@relay.org:a@example.org",
      "a@example.org>",
      "a@[127.0.0.1]",
      "a@example.org/..",
      "a@exa mple.org",
      "a@-example.org",
      ".a@example.org",
      "a..b@example.org",
      "ü@example.org",
      `${"a".repeat(65)}@example.org`,
      `a@${"b".repeat(250)}.org`,
      "a",
      "a@",
      "@example.org",
    ])
      expect([to, [...new Set(await refused({ to }))]]).toEqual([to, ["to"]]);
    expect(await refused({ to: "ann@bücher.example" })).toEqual([]);
    expect(parseMailbox("Ann <ann@bücher.example>")).toEqual({
      name: "Ann",
      address: "ann@xn--bcher-kva.example",
    });
  });

  it("98: at most 50 recipients in all, and 10,000 are refused at once", async () => {
    const many = (count: number): string[] =>
      Array.from({ length: count }, (_, index) => `r${index}@example.org`);
    expect(await refused({ to: many(25), cc: many(15), bcc: many(10) })).toEqual([]);
    expect(await refused({ to: many(25), cc: many(16), bcc: many(10) })).toEqual(["to"]);
    expect(await refused({ to: many(10_000) })).toEqual(["to"]);
    expect(await refused({ to: [] })).toEqual(["to"]);
    expect(await refused({ headers: Object.fromEntries(many(33).map((_, n) => [`X-${n}`, "v"])) })).toEqual([
      "headers",
    ]);
  });

  it("98: own headers cannot replace those that others rely on, and must not be objects", async () => {
    for (const name of ["Bcc", "to", "From", "Sender", "Content-Type", "Received", "X-SMTPAPI", "Message-ID"])
      expect([name, (await refused({ headers: { [name]: "x" } })).length]).toEqual([name, 1]);
    expect(await refused({ headers: { "X-One": { prepared: true, value: "a\r\nBcc: b@c.de" } } })).toEqual([
      "headers.X-One",
    ]);
    expect(await refused({ headers: [["Bcc", "x@example.org"]] })).toEqual(["headers"]);
  });

  it("98: for every accepted mail the server sees one message with the given recipients and one header of each", async () => {
    const server = await openMailServer({ disabledCommands: ["STARTTLS"] });
    const one = sendEmail({ ports: [server.port] });
    const word = fc.string({ unit: "binary", maxLength: 40 });
    const odd = fc.constantFrom(
      "\r\nBcc: x@example.org",
      "\n.\r\n",
      "\r\nRCPT TO:<x@example.org>",
      '"',
      "<>",
      "=?utf-8?q?=0D=0ABcc:_x?=",
    );
    const text = fc.tuple(word, odd, word).map((parts) => parts.join(""));
    await fc.assert(
      fc.asyncProperty(text, text, text, text, async (subject, name, header, body) => {
        const input = {
          from: { name, address: "a@example.org" },
          to: { name: subject, address: "b@example.net" },
          subject,
          headers: { "X-One": header },
          text: body,
        };
        const before = server.taken.length;
        const isTaken = await attempt(one, { input, config: config(server) }).then(
          () => true,
          () => false,
        );
        expect(server.taken.length - before).toBe(isTaken ? 1 : 0);
        if (isTaken) expectOne(server.taken.at(-1) as TakenMail);
      }),
      { numRuns: 40 },
    );
    const plain = {
      from: "a@example.org",
      to: "b@example.net",
      subject: "ok",
      text: "\r\n.\r\nMAIL FROM:<x@y.z>\r\n",
    };
    await attempt(one, { input: plain, config: config(server) });
    expectOne(server.taken.at(-1) as TakenMail);
  });
});

function expectOne(mail: TakenMail): void {
  expect([mail.from, mail.to]).toEqual(["a@example.org", ["b@example.net"]]);
  const head = mail.raw.slice(0, mail.raw.indexOf("\r\n\r\n")).split("\r\n");
  const names = head.filter((line) => !/^[ \t]/.test(line)).map((line) => line.split(":")[0]?.toLowerCase());
  expect(new Set(names).size).toBe(names.length);
  expect(names).not.toContain("bcc");
}
