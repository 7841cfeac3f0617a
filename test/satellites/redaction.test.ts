/** What satellites say, without the values of secrets. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createRedactor } from "../../src/satellites/secrets/redaction.ts";
import type { Json } from "../../src/work/json.ts";
import { userMsSince } from "../cpu_time.ts";

const VALUE = 'p"a/ss wörd+1&%';
const { redact, redactJson } = createRedactor([VALUE]);

describe("redaction", () => {
  it("takes a value out at any place", () => {
    expect(redact(`535 ${VALUE} is wrong, not ${VALUE}`)).toBe("535 [redacted] is wrong, not [redacted]");
    expect(redact("nothing of it")).toBe("nothing of it");
  });

  it.each([
    ["JSON", JSON.stringify({ a: VALUE })],
    ["JSON inside JSON", JSON.stringify(JSON.stringify({ a: VALUE }))],
    ["JSON with slashes escaped", JSON.stringify({ a: VALUE }).replaceAll("/", "\\/")],
    ["JSON in ASCII", '{"a":"p\\"a/ss w\\u00f6rd+1&%"}'],
    ["a part of a URL", `https://a.net/?key=${encodeURIComponent(VALUE)}`],
    ["a part of a URL with small escapes", "https://a.net/?key=p%22a%2fss%20w%c3%b6rd%2b1%26%25"],
    ["a URL", `https://a.net/?key=${encodeURI(VALUE)}`],
    ["a form", new URLSearchParams({ key: VALUE }).toString()],
    ["JSON in a part of a URL", encodeURIComponent(JSON.stringify({ a: VALUE }))],
    ["a URL in JSON in JSON", JSON.stringify(JSON.stringify(encodeURI(VALUE)))],
    ["JSON three times", JSON.stringify(JSON.stringify(JSON.stringify(VALUE)))],
    ["a URL in a URL", encodeURIComponent(encodeURIComponent(VALUE))],
    ["base64 of JSON", Buffer.from(JSON.stringify({ a: VALUE })).toString("base64")],
    ["base64 in a URL", encodeURIComponent(Buffer.from(`~~${VALUE}`).toString("base64"))],
    ["base64", Buffer.from(VALUE).toString("base64")],
    ["base64 for URLs", Buffer.from(VALUE).toString("base64url")],
    ["Basic credentials of a short name", Buffer.from(`u:${VALUE}`).toString("base64")],
    ["Basic credentials of a longer name", Buffer.from(`me:${VALUE}`).toString("base64")],
    ["SASL PLAIN", Buffer.from(`\0user\0${VALUE}`).toString("base64")],
  ])("finds it as %s", (_form, text) => {
    const redacted = redact(`before ${text} after`);
    expect(redacted).toContain("[redacted]");
    expect(redacted).toMatch(/^before .* after$/);
    for (const part of ["rd+1", "w%C3%B6rd", "w%c3%b6rd", "\\u00f6", "wörd"])
      expect(redacted).not.toContain(part);
  });

  it("takes single lines of a long value out, such as those of a private key", () => {
    const key = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG\nAB\n-----END PRIVATE KEY-----\n";
    expect(createRedactor([key]).redact("bad line MIIEvQIBADANBgkqhkiG")).toBe("bad line [redacted]");
  });

  it("stays quick with long texts and odd values", () => {
    const many = createRedactor(
      Array.from({ length: 10 }, (_, index) => `${index}"/ü\\&%+ ${"x".repeat(40)}`),
    );
    const text = "some text of an answer ".repeat(50_000);
    const before = process.cpuUsage();
    expect(many.redact(text)).toBe(text);
    expect(userMsSince(before)).toBeLessThan(5_000);
  });

  it("leaves values below 4 characters, which are part of any text", () => {
    expect(createRedactor(["abc", ""]).redact("abcabc")).toBe("abcabc");
  });

  it("takes out values that overlap", () => {
    expect(createRedactor(["abcdef", "defghi"]).redact("x abcdefghi y")).toBe("x [redacted] y");
  });

  it("searches JSON, names of members included, and leaves numbers as they are", () => {
    const given = { [VALUE]: [VALUE, 1, null, { a: true }], n: 12345 };
    expect(redactJson(given)).toEqual({ "[redacted]": ["[redacted]", 1, null, { a: true }], n: 12345 });
    const own = JSON.parse('{"__proto__": {"a": "text"}}') as never;
    expect(JSON.stringify(redactJson(own))).toBe('{"__proto__":{"a":"text"}}');
  });

  it("leaves nothing of any value in any text that base64 was made of", () => {
    const text = fc.string({ unit: "grapheme", maxLength: 20 });
    fc.assert(
      fc.property(fc.stringMatching(/^[A-Za-z0-9!#$%&*+]{8,40}$/), text, text, (value, before, after) => {
        const whole = before + value + after;
        const { redact: hide } = createRedactor([value]);
        const plain = hide(whole);
        const encoded = hide(Buffer.from(whole).toString("base64"));
        expect(plain).not.toContain(value);
        expect(Buffer.from(encoded.replaceAll("[redacted]", ""), "base64").toString()).not.toContain(value);
        expect(encoded).toContain("[redacted]");
      }),
    );
  });
});

describe("secrets and texts of a hostile user's", () => {
  const special = (index: number, length: number) => `${index}sk/ä+" \\`.padEnd(length, 'q/é"\\');
  const many = Array.from({ length: 32 }, (_, index) => special(index, 60));
  const lines = Array.from({ length: 1_000 }, (_, index) => special(index, 60)).join("\n");
  const short = Array.from({ length: 15_000 }, () => "a".repeat(60));
  const growing = Array.from({ length: 32 }, (_, index) => `${"a".repeat(500 - index)}b`);

  it.each<readonly [string, readonly string[], Json]>([
    ["many secrets", many, short],
    ["a secret of many lines", [lines], "x".repeat(1_000_000)],
    ["a long secret that repeats itself", ["a".repeat(32_768)], "a".repeat(1_000_000)],
    ["a long secret that is nearly everywhere", [`${"a".repeat(32_768)}b`], "a".repeat(1_000_000)],
    [
      "an address like thousands of others",
      ["https://hooks.test/s?k=ä+ /1"],
      "https://hooks.test/s?k=2 ".repeat(40_000),
    ],
    ["many secrets that are nearly everywhere", growing, "a".repeat(1_000_000)],
  ])("take a bounded time: %s", (_what, values, given) => {
    const before = process.cpuUsage();
    createRedactor(values).redactJson(given);
    expect(userMsSince(before)).toBeLessThan(1_500);
  });

  it("are taken out whole where finding them would take too long", () => {
    const { redact: hide } = createRedactor(growing);
    expect(hide("a".repeat(2_000_000))).toBe("[redacted]");
    const alike = "https://hooks.test/s?k=2 ".repeat(40_000);
    expect(createRedactor(["https://hooks.test/s?k=3"]).redact(alike)).toBe(alike);
    expect(hide(`x ${growing[3]} y`)).toBe("x [redacted] y");
  });
});
