/**
 * Streamed answers of a protocol: how one is asked for, and how its events become OpenAI's chunks and, in the end, the body that the
 * same request would have had without streaming, which the codec reads as any other.
 */
import type { Protocol, Provider, ProviderSettings, WireHead } from "../provider.ts";
import { AnthropicStream } from "./anthropic_stream.ts";
import { CompletionStream } from "./completion_stream.ts";
import type { EventReader } from "./event_reader.ts";
import { GeminiStream } from "./gemini_stream.ts";
import { OpenaiStream } from "./openai_stream.ts";
import { ResponseStream } from "./response_stream.ts";

/** How a protocol streams. */
export interface StreamForm {
  /** Where the request goes. */
  head(head: WireHead): WireHead;
  /** The body of a request that is streamed; `body` is a JSON object that `encode` made. */
  body(body: Uint8Array): Uint8Array;
  /** `createdSeconds`: Unix time of the chunks where the provider says none. */
  reader(createdSeconds: number): EventReader;
}

/**
 * Its last chunk has the usage unasked (https://docs.mistral.ai/resources/release-note/2024-01-16-token-usage-in-streaming-requests);
 * whether it takes `stream_options` is not documented.
 */
const WITHOUT_OPTIONS: ReadonlySet<string> = new Set(["mistral"]);

const STREAM = '"stream":true';

const same = (value: WireHead): WireHead => value;

/** Undefined for providers and endpoints that do not stream: their answers are whole. */
export function streamFormOf({
  settings,
  kind,
}: Pick<Provider, "settings" | "kind">): StreamForm | undefined {
  if (settings.hasOwnCodec === true) return undefined;
  if (kind !== undefined) return settings.protocol === "openai" ? endpointForm(settings, kind) : undefined;
  const forms: Partial<Record<Protocol, StreamForm>> = {
    openai: openaiForm(settings, () => new OpenaiStream()),
    anthropic: {
      head: same,
      body: (body) => withMembers(body, STREAM),
      reader: (createdSeconds) => new AnthropicStream(createdSeconds),
    },
    gemini: {
      head: (head) => ({ ...head, path: streamedPath(head.path) }),
      body: (body) => body,
      reader: (createdSeconds) => new GeminiStream(createdSeconds),
    },
  };
  return forms[settings.protocol];
}

function endpointForm(
  settings: ProviderSettings,
  kind: NonNullable<Provider["kind"]>,
): StreamForm | undefined {
  if (kind === "completion") return openaiForm(settings, () => new CompletionStream());
  if (kind !== "response") return undefined;
  return { head: same, body: (body) => withMembers(body, STREAM), reader: () => new ResponseStream() };
}

function openaiForm(
  { name, streamUsage = !WITHOUT_OPTIONS.has(name) }: ProviderSettings,
  reader: () => EventReader,
): StreamForm {
  const members = streamUsage ? `${STREAM},"stream_options":{"include_usage":true}` : STREAM;
  return { head: same, body: (body) => withMembers(body, members), reader };
}

/** Members are written into the text, so that numbers of the request keep their digits. */
function withMembers(body: Uint8Array, members: string): Uint8Array {
  return Buffer.concat([Buffer.from(`{${members},`), body.subarray(body.indexOf(0x7b) + 1)]);
}

/** Source: https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent */
function streamedPath(path: string): string {
  const [before = "", search = ""] = path.split("?", 2);
  const streamed = before.replace(/:generateContent$/, ":streamGenerateContent");
  return `${streamed}?${search === "" ? "" : `${search}&`}alt=sse`;
}
