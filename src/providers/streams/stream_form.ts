/**
 * Streamed answers of a protocol: how one is asked for, and how its events become OpenAI's chunks and, in the end, the body that the
 * same request would have had without streaming, which the codec reads as any other.
 */
import type { Protocol, ProviderSettings, WireHead } from "../provider.ts";
import { AnthropicStream } from "./anthropic_stream.ts";
import type { EventReader } from "./event_reader.ts";
import { GeminiStream } from "./gemini_stream.ts";
import { OpenaiStream } from "./openai_stream.ts";

/** How a protocol streams. */
export interface StreamForm {
  /** Where the request goes. */
  head(head: WireHead): WireHead;
  /** The body of a request that is streamed; `body` is a JSON object that `encode` made. */
  body(body: Uint8Array): Uint8Array;
  /** `createdSeconds`: Unix time of the chunks where the provider says none. */
  reader(createdSeconds: number): EventReader;
}

/** Its API has no `stream_options`, and its last chunk has the usage anyway (https://docs.mistral.ai/api, 2026-11). */
const WITHOUT_OPTIONS: ReadonlySet<string> = new Set(["mistral"]);

const same = (value: WireHead): WireHead => value;

/** Undefined for providers that do not stream: their answers are whole. */
export function streamFormOf(settings: ProviderSettings): StreamForm | undefined {
  if (settings.hasOwnCodec === true) return undefined;
  const forms: Partial<Record<Protocol, StreamForm>> = {
    openai: {
      head: same,
      body: (body) =>
        withMembers(
          body,
          WITHOUT_OPTIONS.has(settings.name)
            ? '"stream":true'
            : '"stream":true,"stream_options":{"include_usage":true}',
        ),
      reader: () => new OpenaiStream(),
    },
    anthropic: {
      head: same,
      body: (body) => withMembers(body, '"stream":true'),
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
