/** Answers for the codecs' tests: built by hand, or read from the fixtures of one provider. */
import { readFileSync } from "node:fs";
import {
  createProvider,
  type Decoded,
  defaultSettings,
  type Provider,
  type WireAnswer,
} from "../../src/providers/index.ts";
import type { ModelRequest } from "../../src/work/request.ts";

/** Fri, 20 Nov 2026 11:00:00 GMT. */
export const WALL_MS = 1_795_172_400_000;

export function provider(name: string, more: Readonly<Record<string, unknown>> = {}): Provider {
  const settings = defaultSettings(name);
  if (settings === undefined) throw new Error(`no provider ${name}`);
  return createProvider({ ...settings, ...more });
}

export function answer(
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): WireAnswer {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return { status, headers, body: new TextEncoder().encode(text), wallMs: WALL_MS };
}

export function fixture(path: string): WireAnswer {
  const read = JSON.parse(readFileSync(new URL(`../fixtures/wire/${path}.json`, import.meta.url), "utf8"));
  return answer(read.status, read.body, read.headers);
}

/** Decodes a fixture by the codec of its folder. */
export function decodeFixture(path: string): Decoded {
  return provider(path.split("/")[0] ?? "").decode(fixture(path));
}

export function request(part: Partial<ModelRequest> = {}): ModelRequest {
  return {
    system: [],
    turns: [{ role: "user", parts: ["How many?"] }],
    config: {},
    unknownFields: [],
    ...part,
  };
}

/** The body that a provider would send, parsed. */
export function bodyOf(codec: Provider, given: ModelRequest, model: string): Record<string, unknown> {
  const encoded = codec.encode(given, model);
  if (!encoded.ok) throw new Error(encoded.message);
  return JSON.parse(encoded.body);
}

/** The settings that a provider would leave out. */
export function droppedBy(codec: Provider, given: ModelRequest, model: string): readonly string[] {
  const encoded = codec.encode(given, model);
  if (!encoded.ok) throw new Error(encoded.message);
  return encoded.dropped;
}
