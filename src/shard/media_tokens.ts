/**
 * Tokens of images, documents and audio: the most that they can be, and those that a quote expects.
 *
 *   image, OpenAI      tiles of 512 pixels or patches of 32, by the name of the model (the table below); the largest image that is
 *                      not scaled down where the size is not known
 *   image, Claude      width x height / 750 after scaling to the model's longest edge
 *   image, Gemini      2.x: 258 for each tile (up to 384 pixels: one; else the shorter edge / 1.5 is a tile's); 3 and later: by
 *                      resolution, 1,120 unless the part says otherwise
 *   document           as many as the model's context holds; a page for each 32 KiB is expected
 *   audio              by its length, which is at most its bytes / 500 (4 kbit/s); 16,000 bytes a second are expected. 32 tokens a
 *                      second at Gemini and 10 at OpenAI, at up to 7 and 17 times the price of text (genai-prices 0.1.8)
 *   a file that is read when it is sent       as the largest that is sent; 256 KiB are expected. Its size is not asked here:
 *                                             this runs in threads, and the file may be another one by then
 *   video, and what the provider fetches      no bound, but for images
 *
 * Sources: platform.openai.com/docs/guides/images-vision, docs.claude.com/en/docs/build-with-claude/vision and pdf-support,
 * ai.google.dev/gemini-api/docs/tokens, image-understanding and media-resolution. Seen there in November 2026: 258 tokens a tile, 32 a
 * second of audio and 560 a page at Gemini. The others are from memory: answers that exceed their bound raise it
 * (engine/items/cost_bounds.ts).
 *
 * The size of a PNG, GIF, WebP or JPEG is read from at most its first 64 KiB of base64.
 */
import { mediaBytesMax } from "../providers/inserts.ts";
import type { MediaPart } from "../work/request.ts";

/** Tokens of a part: the most, and those expected. */
export interface PartTokens {
  readonly most: number;
  readonly expected: number;
}

/** Whose formula counts. */
export interface MediaReader {
  /** The provider's name. */
  readonly provider: string;
  /** The model's name at its provider. */
  readonly model: string;
  readonly protocol: string;
  /** Bytes of a file that is read when it is sent, at most. */
  readonly mediaBytesMax?: number | undefined;
  /** Gemini's level for media that have none of their own. */
  readonly mediaResolution?: string | undefined;
}

const SLACK_TOKENS = 8;
/** The largest context of a model that is known: gpt-6 and gemini. */
const CONTEXT_TOKENS_MOST = 1_050_000;
const PAGE_BYTES = 32_768;
const PAGE_TOKENS = 2_500;
const GEMINI_PAGE_TOKENS = 560;
const AUDIO_BYTES_PER_SECOND_MIN = 500;
const AUDIO_BYTES_PER_SECOND = 16_000;
/** Of a file that is read when it is sent; a guess. */
const FILE_BYTES = 256 * 1024;

/** Undefined where the vendor's formula is not known, or needs what the request does not hold. */
export function mediaTokens(part: MediaPart, reader: MediaReader): PartTokens | undefined {
  const { source, type, detail } = part;
  const base64 = "base64" in source ? source.base64 : undefined;
  if (type === "image") {
    const size = base64 === undefined ? undefined : imageSize(base64);
    return reader.protocol === "gemini" ? geminiImage(part, size, reader) : imageTokens(reader, detail, size);
  }
  if ("url" in source || "providerFile" in source || type === "video") return undefined;
  const bytes = base64 === undefined ? FILE_BYTES : (base64.length * 3) / 4;
  const bytesMost = base64 === undefined ? mediaBytesMax(reader) : bytes;
  if (type === "audio") return audioTokens(bytes, bytesMost, reader);
  if (reader.protocol !== "gemini" && reader.protocol !== "anthropic" && reader.provider !== "openai")
    return undefined;
  const pageTokens = reader.protocol === "gemini" ? GEMINI_PAGE_TOKENS : PAGE_TOKENS;
  const isText = part.mimeType?.startsWith("text/") === true;
  if (isText) return { most: Math.ceil(bytesMost) + SLACK_TOKENS, expected: Math.ceil(bytes / 4) };
  return { most: CONTEXT_TOKENS_MOST, expected: Math.ceil(bytes / PAGE_BYTES) * pageTokens };
}

function audioTokens(
  bytes: number,
  bytesMost: number,
  { protocol, provider }: MediaReader,
): PartTokens | undefined {
  const isGemini = protocol === "gemini";
  if (!isGemini && provider !== "openai") return undefined;
  const perSecond = isGemini ? 32 : 10;
  const priceOverText = isGemini ? 7 : 17;
  return {
    most: Math.ceil((bytesMost / AUDIO_BYTES_PER_SECOND_MIN) * perSecond * priceOverText) + SLACK_TOKENS,
    expected: Math.ceil((bytes / AUDIO_BYTES_PER_SECOND) * perSecond),
  };
}

interface ImageSize {
  readonly width: number;
  readonly height: number;
}

/** Tiles of an image whose edges differ more than this are counted as if they did not: Gemini says no more. */
const TILES_MOST = 64;
const TILE_TOKENS = 258;
const RESOLUTION_TOKENS: ReadonlyMap<string, number> = new Map([
  ["MEDIA_RESOLUTION_LOW", 280],
  ["MEDIA_RESOLUTION_MEDIUM", 560],
  ["MEDIA_RESOLUTION_HIGH", 1_120],
  ["MEDIA_RESOLUTION_ULTRA_HIGH", 2_240],
]);

function geminiImage(part: MediaPart, size: ImageSize | undefined, reader: MediaReader): PartTokens {
  const isTiled = /gemini-[12]\./.test(reader.model);
  if (!isTiled) {
    const level = part.mediaResolution ?? reader.mediaResolution ?? "MEDIA_RESOLUTION_HIGH";
    const tokens = RESOLUTION_TOKENS.get(level) ?? 2_240;
    return { most: tokens + SLACK_TOKENS, expected: tokens };
  }
  if (size === undefined) return { most: TILES_MOST * TILE_TOKENS, expected: 4 * TILE_TOKENS };
  const tokens = tilesOf(size) * TILE_TOKENS;
  return { most: tokens + SLACK_TOKENS, expected: tokens };
}

function tilesOf({ width, height }: ImageSize): number {
  if (width <= 384 && height <= 384) return 1;
  const unit = Math.max(1, Math.floor(Math.min(width, height) / 1.5));
  return Math.min(TILES_MOST, Math.ceil(width / unit) * Math.ceil(height / unit));
}

/**
 * Tokens of one image, by the name of the model. `high` is the most: tiles of 512 pixels after scaling to 2,048 by 768 (8
 * tiles), or patches of 32 pixels up to the model's budget, times its multiplier. `low` is the most at low detail. `square` is an
 * image of 1,024 by 1,024 pixels (4 tiles, or 1,024 patches), which a quote expects where it does not know the size.
 */
const IMAGE_TOKENS: readonly (readonly [RegExp, ImageTokens])[] = [
  [/^gpt-4o-mini/, { high: 2_833 + 8 * 5_667, low: 2_833, square: 2_833 + 4 * 5_667 }],
  [/^gpt-4\.1-(mini|nano)|^o4-mini|^gpt-5-(mini|nano)/, { high: 3_780, low: 3_780, square: 2_520 }],
  [
    /^(gpt-4o|chatgpt-4o|gpt-4\.[15]|gpt-4-turbo|gpt-4-vision)/,
    { high: 85 + 8 * 170, low: 85, square: 85 + 4 * 170 },
  ],
  [/^o[1-9]/, { high: 75 + 8 * 150, low: 75, square: 75 + 4 * 150 }],
  [/^gpt-5(-chat|-\d{4}|$)/, { high: 70 + 8 * 140, low: 70, square: 70 + 4 * 140 }],
  // Later models read up to 10,000 patches at their original detail; the dearest multiplier that is known is 2.46.
  [/^gpt-[5-9]/, { high: 24_600, low: 24_600, square: 2_520 }],
  // Up to 1,568 pixels an edge, 2,576 from 4.7 on: width x height / 750, at most.
  [/claude/, { high: 9_000, low: 9_000, square: 1_399 }],
];

interface ImageTokens {
  readonly high: number;
  readonly low: number;
  readonly square: number;
}

const READERS: ReadonlySet<string> = new Set(["openai", "openrouter", "azure"]);
const CLAUDE_EDGE = 2_576;
const CLAUDE_PIXELS_PER_TOKEN = 750;

/** Tokens of an image by the name of its model; undefined if the vendor does not publish a formula. */
export function imageTokens(
  { provider, model, protocol }: MediaReader,
  detail: unknown,
  size: ImageSize | undefined,
): PartTokens | undefined {
  const name = model.slice(model.lastIndexOf("/") + 1).replace(/^ft:/, "");
  const found = IMAGE_TOKENS.find(([pattern]) => pattern.test(name))?.[1];
  if (found === undefined || (protocol !== "anthropic" && !READERS.has(provider))) return undefined;
  if (/claude/.test(name) && size !== undefined) {
    const scale = Math.min(1, CLAUDE_EDGE / Math.max(size.width, size.height));
    const tokens = Math.ceil((size.width * size.height * scale * scale) / CLAUDE_PIXELS_PER_TOKEN);
    return { most: Math.min(found.high, tokens) + SLACK_TOKENS, expected: Math.min(found.high, tokens) };
  }
  const isLow = detail === "low";
  return {
    most: (isLow ? found.low : found.high) + SLACK_TOKENS,
    expected: isLow ? Math.min(found.low, found.square) : found.square,
  };
}

const HEAD_CHARS_MAX = 65_536;
const PNG = 0x89504e47;
const GIF = 0x47494638;
const RIFF = 0x52494646;
const WEBP = 0x57454250;
const JPEG = 0xffd8;

/** The size that the first bytes of an image name; undefined where they do not, or it is not above 0. */
export function imageSize(base64: string): ImageSize | undefined {
  const bytes = Buffer.from(base64.slice(0, HEAD_CHARS_MAX), "base64");
  if (bytes.length < 30) return undefined;
  const size = sizeIn(bytes);
  return size !== undefined && size.width > 0 && size.height > 0 ? size : undefined;
}

function sizeIn(bytes: Buffer): ImageSize | undefined {
  const start = bytes.readUInt32BE(0);
  if (start === PNG) return { width: bytes.readUInt32BE(16), height: bytes.readUInt32BE(20) };
  if (start === GIF) return { width: bytes.readUInt16LE(6), height: bytes.readUInt16LE(8) };
  if (start === RIFF && bytes.readUInt32BE(8) === WEBP) return webpSize(bytes);
  return start >>> 16 === JPEG ? jpegSize(bytes) : undefined;
}

/** VP8 (lossy), VP8L (lossless), VP8X (extended): RFC 9649. */
function webpSize(bytes: Buffer): ImageSize | undefined {
  const kind = bytes.toString("latin1", 12, 16);
  if (kind === "VP8X") return { width: bytes.readUIntLE(24, 3) + 1, height: bytes.readUIntLE(27, 3) + 1 };
  if (kind === "VP8L") {
    const bits = bytes.readUInt32LE(21);
    return { width: (bits & 0x3fff) + 1, height: ((bits >>> 14) & 0x3fff) + 1 };
  }
  if (kind !== "VP8 ") return undefined;
  return { width: bytes.readUInt16LE(26) & 0x3fff, height: bytes.readUInt16LE(28) & 0x3fff };
}

/** From the first frame header, SOF0 to SOF15 without DHT, JPG and DAC: ITU T.81, B.2.2. */
function jpegSize(bytes: Buffer): ImageSize | undefined {
  let at = 2;
  while (at + 9 <= bytes.length && bytes[at] === 0xff) {
    const marker = bytes[at + 1] ?? 0;
    if (marker === 0xff) {
      at += 1; // fill bytes
      continue;
    }
    const isFrame = marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc;
    if (isFrame) return { width: bytes.readUInt16BE(at + 7), height: bytes.readUInt16BE(at + 5) };
    at += 2 + bytes.readUInt16BE(at + 2);
  }
  return undefined;
}
