/** Batch wires for tests, and what a sender makes of their requests. */
import { anthropicBatches } from "../../../src/providers/batches/anthropic_batches.ts";
import type { BatchSettings } from "../../../src/providers/batches/batch_settings.ts";
import type { BatchPayload, BatchRequest, BatchWire } from "../../../src/providers/batches/batch_wire.ts";
import { geminiBatches } from "../../../src/providers/batches/gemini_batches.ts";
import { openrouterBatches } from "../../../src/providers/batches/openrouter_batches.ts";
import { xaiBatches } from "../../../src/providers/batches/xai_batches.ts";
import type { ProviderSettings } from "../../../src/providers/index.ts";
import { defaultSettings } from "../../../src/providers/registry.ts";

export const KEY = "key-of-the-account";
export const TAG = "01ABCDEFGH";

export function settingsOf(name: string, baseUrl?: string): ProviderSettings {
  const settings = defaultSettings(name, baseUrl);
  if (settings === undefined) throw new Error(`no provider ${name}`);
  return { ...settings, key: KEY };
}

export const anthropic = (baseUrl?: string): BatchWire => anthropicBatches(settingsOf("anthropic", baseUrl));
export const gemini = (options?: BatchSettings, baseUrl?: string): BatchWire =>
  geminiBatches(settingsOf("gemini", baseUrl), options);
export const xai = (): BatchWire => xaiBatches(settingsOf("xai", "https://api.x.ai/v1"));
export const openrouter = (): BatchWire => openrouterBatches(settingsOf("openrouter"));

/** All wires by name; Gemini's both ways. */
export const WIRES: readonly (readonly [string, BatchWire])[] = [
  ["anthropic", anthropic()],
  ["gemini by file", gemini({ inlineBytesMax: 0 })],
  ["gemini inline", gemini()],
  ["xai", xai()],
  ["openrouter", openrouter()],
];

const bytes = new TextEncoder();
const text = new TextDecoder();

/** The lines of some bodies, and the payload that describes them. */
export function linesOf(
  wire: BatchWire,
  bodies: readonly string[],
  model = "m-1",
): { readonly lines: readonly Uint8Array[]; readonly payload: BatchPayload } {
  const described = { model, endpoint: "chat" } as const;
  const lines = bodies.map((body, index) => wire.line(`${TAG}-${index}`, bytes.encode(body), described));
  const size = lines.reduce((sum, line) => sum + line.byteLength + 1, 0);
  return { lines, payload: { tag: TAG, ...described, items: lines.length, bytes: size } };
}

/** The body that is sent. */
export function sentBody({ body }: BatchRequest, lines: readonly Uint8Array[] = []): string {
  if (body.kind === "bytes") return text.decode(body.bytes);
  const { before, separator, after, from = 0, count = lines.length, rewritten = (line) => line } = body;
  const sent = lines.slice(from, from + count).map((line) => text.decode(rewritten(line)));
  return `${before}${sent.join(separator)}${separator === "\n" ? "\n" : ""}${after}`;
}

/** The body that is sent, parsed. */
export function sentJson(request: BatchRequest, lines: readonly Uint8Array[] = []): unknown {
  const sent = sentBody(request, lines);
  return sent === "" ? undefined : JSON.parse(sent);
}

/** Method, address and query in one line. */
export function lineOf(request: BatchRequest | undefined): string {
  return request === undefined ? "none" : `${request.method} ${request.origin}${request.path}`;
}

/** A result as it is shown in tables: what it is, its id, the status, the body. */
export function shortResult(wire: BatchWire, element: unknown): string {
  const given = typeof element === "string" ? element : JSON.stringify(element);
  const result = wire.result(bytes.encode(given));
  if (result.is === "unreadable") return "unreadable";
  if (result.is === "unfinished") return `unfinished ${result.id} ${result.code}`;
  return `answered ${result.id} ${result.status} ${text.decode(result.body)}`;
}
