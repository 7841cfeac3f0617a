/**
 * Keys and passwords in what a provider says.
 */
import { describe, expect, it } from "vitest";
import { keepingKeys, withoutKeys } from "../../src/providers/key_text.ts";
import type { Decoded, Provider } from "../../src/providers/provider.ts";
import { createProvider } from "../../src/providers/registry.ts";

const LONG = "Xk29fLq8ZzP0aB7cD4eF6gH1";

describe("words of a provider", () => {
  it.each([
    ["no AKIAIOSFODNN7EXAMPLE here", "no [key] here"],
    ["wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY is wrong", "[key] is wrong"],
    ["xoxb-123456-abc, hf_abcd12 and ghp_abcd12", "[key], [key] and [key]"],
    ["password=hunter22 failed", "password=[key] failed"],
    ["DB_PASSWORD=hunter22", "DB_PASSWORD=[key]"],
    ["Server=a;Password=b;User=c", "Server=a;Password=[key];User=c"],
    ["https://host/x?api_key=abc&user=bob", "https://host/x?api_key=[key]&user=bob"],
    ["passwd: hunter, pwd = 'two words', secret: x", "passwd: [key] pwd = '[key]', secret: [key]"],
    ['{"password":"it\'s one","user":"bob"}', '{"password":"[key]","user":"bob"}'],
    [
      JSON.stringify(JSON.stringify({ token: "a b", user: "bob" })),
      JSON.stringify(JSON.stringify({ token: "[key]", user: "bob" })),
    ],
    ["client_secret: 'cut off within", "client_secret: '[key]"],
    ["Authorization: Basic Ym9iOnB3", "Authorization: [key]"],
    ["it sent Bearer abc123 to us", "it sent Bearer [key] to us"],
    ["http://bob:pw@host/path", "http://bob:[key]@host/path"],
    ["connect http://bob:p@ss:w@host:80 failed", "connect http://bob:[key]@host:80 failed"],
    ["https://token1@host", "https://[key]@host"],
    ["-----BEGIN RSA PRIVATE KEY-----\nMIIE+a/b\n-----END RSA PRIVATE KEY----- end", "[key] end"],
    ["-----BEGIN PRIVATE KEY----- MIIE+a/b cut", "[key]"],
  ])("are shown without keys and passwords: %s", (text, shown) => {
    expect(withoutKeys(text)).toBe(shown);
    expect(withoutKeys(shown)).toBe(shown);
  });

  it.each([
    "Basic authentication failed: the Bearer scheme is required",
    "max_tokens: 4096 is more than 2048 tokens",
    "connect ECONNREFUSED http://127.0.0.1:8080/v1/@scope/models?x=a@b",
    "You can find your API key at https://platform.openai.com/account/api-keys.",
    "the password is wrong, and the secret of /home/bob/my-project/src/providers/index.ts:12:3 too",
  ])("are shown as they are where they hold neither: %s", (text) => {
    expect(withoutKeys(text)).toBe(text);
  });

  it("may be a megabyte of anything, in seconds instead of hours", { timeout: 60_000 }, () => {
    for (const piece of [
      "://",
      "://a:",
      "x@",
      "token",
      "token=",
      "Bearer ",
      "-----BEGIN PRIVATE KEY",
      "a/",
      "=\\'",
    ])
      expect(withoutKeys(piece.repeat(1_000_000 / piece.length))).not.toBe("");
  });
});

describe("a provider with a key", () => {
  const settings = { name: "mine", protocol: "openai", baseUrl: "http://mine.test/v1", key: LONG } as const;
  const base = createProvider(settings);
  const whole = {
    class: "success",
    text: `it is ${LONG}`,
    finish: "stop",
    members: undefined,
    usage: undefined,
  };
  const answer = { status: 200, headers: {}, body: new Uint8Array(), wallMs: 0 };
  const decodedBy = (decoded: object): Decoded =>
    keepingKeys({ ...base, decode: () => decoded as Decoded }, settings).decode(answer);

  it("keeps it out of the model, the tier and the request id of an answer, and leaves its text", () => {
    const said = { model: `m-${LONG}`, servedTier: LONG, requestId: `req ${LONG.toLowerCase()}` };
    expect(decodedBy({ ...whole, ...said })).toEqual({
      ...whole,
      ...{ model: "m-[key]", servedTier: "[key]", requestId: "req [key]" },
    });
    const clean = { ...whole, model: "m", requestId: "r" };
    expect(decodedBy(clean)).toBe(clean);
  });

  it("keeps the causes of an error of its head, without the key in their words and stacks", () => {
    const head: Provider["head"] = () => {
      throw new TypeError(`no ${LONG}`, { cause: new Error(`deep ${LONG}`) });
    };
    const thrown = (): unknown => {
      try {
        return keepingKeys({ ...base, head }, settings).head("m");
      } catch (error) {
        return error;
      }
    };
    const error = thrown() as Error & { readonly cause: Error };
    expect(error).toMatchObject({ code: "invalid_config", message: "no [key]" });
    expect(error.cause).toMatchObject({
      name: "TypeError",
      message: "no [key]",
      cause: { message: "deep [key]" },
    });
    expect(error.cause.stack).toMatch(/TypeError: no \[key\]\n\s+at /);
    expect(error.cause.stack).not.toContain(LONG);
  });
});
