import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createProvider, defaultSettings, KNOWN_PROVIDERS } from "../../src/providers/index.ts";
import { goDurationMs, retryAfterMs } from "../../src/providers/retry_after.ts";
import type { ModelRequest } from "../../src/work/request.ts";

const providers = [...KNOWN_PROVIDERS.keys()].map((name) => createProvider(defaultSettings(name)!));
const anyProvider = fc.constantFrom(...providers);

const names = fc.constantFrom(
  ...[
    "error",
    "choices",
    "message",
    "content",
    "finish_reason",
    "usage",
    "prompt_tokens",
    "completion_tokens",
  ],
  ...[
    "candidates",
    "parts",
    "text",
    "usageMetadata",
    "promptTokenCount",
    "type",
    "code",
    "details",
    "metadata",
  ],
  ...[
    "stop_reason",
    "input_tokens",
    "output_tokens",
    "finishReason",
    "promptFeedback",
    "__proto__",
    "violations",
  ],
);
const leaf = fc.oneof(
  fc.constantFrom(
    null,
    true,
    "",
    "text",
    "stop",
    "length",
    "error",
    "insufficient_quota",
    "SAFETY",
    0,
    -1,
    429,
    502,
    1.5,
  ),
  fc.string(),
  fc.double(),
);
/** Values that look like answers: known names in any arrangement. */
const shaped = fc.letrec((tie) => ({
  value: fc.oneof({ depthSize: "medium" }, leaf, tie("object"), fc.array(tie("value"), { maxLength: 3 })),
  object: fc.dictionary(names, tie("value"), { maxKeys: 6 }),
})).object;
const bytes = fc.oneof(
  fc.uint8Array({ maxLength: 200 }),
  fc.json().map((text) => new TextEncoder().encode(text)),
  shaped.map((value) => new TextEncoder().encode(JSON.stringify(value))),
);
const statuses = fc.oneof(fc.constantFrom(200, 400, 403, 429, 500, 503), fc.integer({ min: 0, max: 999 }));
const headerText = fc.oneof(
  fc.string(),
  fc.constantFrom(
    "0",
    "-1",
    "12ms",
    "true",
    "false",
    "2026-11-20T11:00:00Z",
    "Fri, 20 Nov 2026 11:00:00 GMT",
    "NaN",
  ),
);
const headers = fc.dictionary(
  fc.constantFrom(
    ...["retry-after", "retry-after-ms", "x-should-retry", "content-type", "date", "x-ratelimit-reset"],
    ...["x-ratelimit-limit-tokens", "x-ratelimit-reset-tokens", "anthropic-ratelimit-tokens-reset"],
  ),
  headerText,
);

describe("decode", () => {
  it("is total: any status, headers and bytes have a class, and no success is empty", () => {
    fc.assert(
      fc.property(anyProvider, statuses, headers, bytes, (provider, status, given, body) => {
        const decoded = provider.decode({ status, headers: given, body, wallMs: 1_795_172_400_000 });
        expect(["success", "refused", "ambiguous", "permanent"]).toContain(decoded.class);
        if (decoded.class === "success") {
          expect(decoded.text).not.toBe("");
          expect(status).toBeGreaterThanOrEqual(200);
          expect(status).toBeLessThan(300);
        } else if (decoded.retryAfterMs !== undefined) {
          expect(decoded.retryAfterMs).toBeGreaterThanOrEqual(100);
          expect(decoded.retryAfterMs).toBeLessThanOrEqual(
            decoded.class === "permanent" ? 86_400_000 : 900_000,
          );
        }
        if (decoded.usage !== undefined) {
          const { inputTokens, cachedTokens, cacheWriteTokens, outputTokens, reasoningTokens } =
            decoded.usage;
          for (const count of [inputTokens, cachedTokens, cacheWriteTokens, outputTokens, reasoningTokens]) {
            expect(Number.isInteger(count) && count >= 0).toBe(true);
          }
          expect(cachedTokens + cacheWriteTokens).toBeLessThanOrEqual(inputTokens);
          expect(reasoningTokens).toBeLessThanOrEqual(outputTokens);
        }
      }),
      { numRuns: 3_000 },
    );
  });

  it("shows of a body at most the start of its error's message, and nothing where the failure concerns an item", () => {
    const canary = "CANARY canary canary ".repeat(50);
    fc.assert(
      fc.property(anyProvider, statuses, names, names, (provider, status, outer, inner) => {
        const body = new TextEncoder().encode(
          JSON.stringify({ [outer]: { [inner]: `ELSEWHERE ${canary}`, message: canary } }),
        );
        const decoded = provider.decode({ status, headers: {}, body, wallMs: 0 });
        if (decoded.class === "success") return;
        if (decoded.scope === "item") expect(decoded.message).not.toContain("CANARY");
        expect(decoded.message.match(/canary/gi)?.length ?? 0).toBeLessThan(30);
        if (inner !== "message") expect(decoded.message).not.toContain("ELSEWHERE");
      }),
    );
  });
});

it("limits are whole or absent, for any headers", () => {
  fc.assert(
    fc.property(anyProvider, headers, (provider, given) => {
      for (const value of Object.values(provider.limits(given) ?? {})) {
        expect(Number.isFinite(value) && value >= 0).toBe(true);
      }
    }),
  );
});

it("any text is a wait between 100 ms and a day, or none", () => {
  fc.assert(
    fc.property(headerText, fc.string(), (text, other) => {
      for (const told of [
        retryAfterMs({ "retry-after": text }, 0),
        retryAfterMs({ "retry-after-ms": other }, 0),
      ]) {
        expect(told === undefined || (told >= 100 && told <= 86_400_000)).toBe(true);
      }
      expect(goDurationMs(text) ?? 0).toBeGreaterThanOrEqual(0);
    }),
  );
});

it("what is encoded is JSON that holds every text of the request", () => {
  const texts = fc.array(fc.string({ unit: "binary" }), { minLength: 1, maxLength: 3 });
  const turns = fc.array(
    fc.record({ role: fc.constantFrom("user" as const, "model" as const), parts: texts }),
    {
      minLength: 1,
      maxLength: 4,
    },
  );
  fc.assert(
    fc.property(
      fc.constantFrom(...providers.filter((provider) => provider.settings.protocol !== "echo")),
      fc.array(fc.string(), { maxLength: 2 }),
      turns,
      fc.record(
        {
          temperature: fc.double({ min: 0, max: 2, noNaN: true }),
          topK: fc.integer({ min: 1, max: 100 }),
          maxOutputTokens: fc.integer({ min: 1, max: 4096 }),
          seed: fc.oneof(
            fc.integer(),
            fc.bigInt().map((value) => ({ digits: String(value) })),
          ),
        },
        { requiredKeys: [] },
      ),
      (provider, system, given, config) => {
        const request: ModelRequest = { system, turns: given, config, unknownFields: [] };
        const encoded = provider.encode(request, "model");
        expect(encoded.ok).toBe(true);
        if (!encoded.ok) return;
        const joined = textsIn(JSON.parse(encoded.body)).join("");
        for (const text of [...system, ...given.flatMap((turn) => turn.parts)])
          expect(joined).toContain(text);
      },
    ),
    { numRuns: 1_000 },
  );
});

function textsIn(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(textsIn) : [];
}
