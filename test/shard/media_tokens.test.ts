/** Bounds of media: sizes from the first bytes, vendors' formulas, and no bound where none is known. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { imageSize, mediaTokens } from "../../src/shard/media_tokens.ts";
import type { MediaPart } from "../../src/work/request.ts";

function base64(bytes: readonly number[], length = 64): string {
  return Buffer.concat([Buffer.from(bytes), Buffer.alloc(Math.max(0, length - bytes.length))]).toString(
    "base64",
  );
}

const two = (value: number): number[] => [(value >> 8) & 0xff, value & 0xff];
const four = (value: number): number[] => [...two(value >>> 16), ...two(value)];
const littleTwo = (value: number): number[] => two(value).reverse();

/** The heads of images of a size. */
const HEADS: Readonly<Record<string, (width: number, height: number) => number[]>> = {
  png: (width, height) => [
    0x89,
    0x50,
    0x4e,
    0x47,
    13,
    10,
    26,
    10,
    ...four(13),
    0x49,
    0x48,
    0x44,
    0x52,
    ...four(width),
    ...four(height),
  ],
  gif: (width, height) => [...Buffer.from("GIF89a"), ...littleTwo(width), ...littleTwo(height)],
  "jpeg after an application segment": (width, height) => [
    ...[0xff, 0xd8, 0xff, 0xe0, 0, 16, ...Array<number>(14).fill(1), 0xff, 0xc2, 0, 17, 8],
    ...[...two(height), ...two(width)],
  ],
  "webp, extended": (width, height) => [
    ...[...Buffer.from("RIFF____WEBPVP8X"), ...four(0), ...four(0)],
    ...[...littleTwo(width - 1), 0, ...littleTwo(height - 1), 0],
  ],
  "webp, lossy": (width, height) => [
    ...[...Buffer.from("RIFF____WEBPVP8 "), ...four(0), 0, 0, 0, 0x9d, 0x01, 0x2a],
    ...[...littleTwo(width), ...littleTwo(height)],
  ],
};

describe("the size of an image", () => {
  it.each(Object.keys(HEADS))("is read from the first bytes of a %s", (kind) => {
    const side = fc.integer({ min: 1, max: 0x3fff });
    fc.assert(
      fc.property(side, side, (width, height) => {
        expect(imageSize(base64(HEADS[kind]?.(width, height) ?? []))).toEqual({ width, height });
      }),
    );
  });

  it("is not known from any other bytes, which never throw", () => {
    expect(imageSize("")).toBeUndefined();
    expect(imageSize(base64([1, 2, 3]))).toBeUndefined();
    expect(imageSize(base64(HEADS["png"]?.(0, 5) ?? []))).toBeUndefined();
    const starts = [[], [0xff, 0xd8, 0xff], [0x89, 0x50, 0x4e, 0x47], [...Buffer.from("RIFF1234WEBPVP8")]];
    fc.assert(
      fc.property(fc.constantFrom(...starts), fc.uint8Array({ maxLength: 200 }), (start, bytes) => {
        const size = imageSize(Buffer.concat([Buffer.from(start), bytes]).toString("base64"));
        expect(size === undefined || (size.width > 0 && size.height > 0)).toBe(true);
      }),
    );
  });
});

const claude = { provider: "anthropic", model: "claude-haiku-4-5", protocol: "anthropic" };
const gemini = { provider: "gemini", model: "gemini-2.5-flash", protocol: "gemini" };
const gpt = { provider: "openai", model: "gpt-4o", protocol: "openai" };
const png = (width: number, height: number): MediaPart => ({
  kind: "media",
  type: "image",
  mimeType: "image/png",
  source: { base64: base64(HEADS["png"]?.(width, height) ?? []) },
});

describe("tokens of media", () => {
  it("follow the vendors' formulas where the size is known", () => {
    // https://docs.claude.com/en/docs/build-with-claude/vision: 1,000 x 1,000 pixels are about 1,334 tokens.
    expect(mediaTokens(png(1_000, 1_000), claude)?.expected).toBe(1_334);
    // https://ai.google.dev/gemini-api/docs/image-understanding: 960 x 540 pixels are 6 tiles of 258 tokens.
    expect(mediaTokens(png(960, 540), gemini)?.expected).toBe(6 * 258);
    expect(mediaTokens(png(384, 384), gemini)?.expected).toBe(258);
    expect(mediaTokens({ ...png(9, 9), detail: "low" }, gpt)).toEqual({ most: 85 + 8, expected: 85 });
  });

  it("are never expected to be more than their most", () => {
    const side = fc.integer({ min: 1, max: 20_000 });
    fc.assert(
      fc.property(
        side,
        side,
        fc.constantFrom(claude, gemini, gpt, { ...gemini, model: "gemini-3.8-flash" }),
        (width, height, reader) => {
          const tokens = mediaTokens(png(width, height), reader);
          expect(tokens?.expected).toBeLessThanOrEqual(tokens?.most ?? 0);
          const unknown = mediaTokens({ ...png(1, 1), source: { url: "https://x/a.png" } }, reader);
          expect(unknown?.expected).toBeLessThanOrEqual(unknown?.most ?? 0);
        },
      ),
    );
  });

  it("of audio and documents are bounded by their bytes and the model's context, and not at all where they are elsewhere", () => {
    const audio = { kind: "media", type: "audio", mimeType: "audio/wav" } as const;
    const second = { base64: base64([], 16_000) };
    expect(mediaTokens({ ...audio, source: second }, gemini)).toMatchObject({ expected: 33 });
    expect(mediaTokens({ ...audio, source: second }, gemini)?.most).toBeGreaterThan(32 * 7);
    expect(mediaTokens({ ...audio, source: { url: "https://x/a.wav" } }, gemini)).toBeUndefined();
    const largest = mediaTokens({ ...audio, source: { path: "a.wav" } }, gemini);
    expect(largest?.most).toBeGreaterThan(((20 * 1024 * 1024) / 500) * 32 * 7); // of a file of 20 MiB, whatever it has
    expect(largest?.expected).toBe(Math.ceil(((256 * 1024) / 16_000) * 32));
    const pdf = { kind: "media", type: "document", mimeType: "application/pdf", source: second } as const;
    expect(mediaTokens(pdf, claude)).toEqual({ most: 1_050_000, expected: 2_500 });
    expect(mediaTokens({ ...pdf, type: "video" }, gemini)).toBeUndefined();
  });
});
