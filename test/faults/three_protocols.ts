/**
 * A loopback server that speaks the protocols of OpenAI, Anthropic and Gemini, answers after a short while, and keeps
 * a ledger of the prompts it was sent.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface ThreeProtocols {
  readonly url: string;
  /** The last user text of every request, in order of arrival. */
  readonly prompts: readonly string[];
  /** When each of them came, as `performance.now` tells. */
  readonly arrivedMs: readonly number[];
  close(): Promise<void>;
}

/** Answers `answer: <last user text>` after `latencyMs`. */
export async function startThreeProtocols(latencyMs: number): Promise<ThreeProtocols> {
  const prompts: string[] = [];
  const arrivedMs: number[] = [];
  const server = createServer((request, response) => {
    void readBody(request).then((body) => {
      if (body === undefined) return;
      if (!GENERATES.test(request.url ?? "")) {
        response.writeHead(404).end(); // it has no batches
        return;
      }
      const { prompt, answer } = understand(request.url ?? "", JSON.parse(body));
      prompts.push(prompt);
      arrivedMs.push(performance.now());
      setTimeout(() => send(response, answer), latencyMs);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}`, prompts, arrivedMs, close: () => stop(server) };
}

/** The paths at which it answers. */
const GENERATES = /\/(?:chat\/completions|messages|models\/[^/]+:generateContent)$/;

interface Parts {
  readonly parts: readonly { readonly text: string }[];
}

interface AnyBody {
  readonly messages?: readonly { readonly content: string | readonly { readonly text: string }[] }[];
  readonly contents?: readonly Parts[];
}

function understand(path: string, body: AnyBody): { readonly prompt: string; readonly answer: object } {
  const last = body.contents?.at(-1)?.parts ?? body.messages?.at(-1)?.content ?? "";
  const prompt = typeof last === "string" ? last : last.map((part) => part.text).join("");
  const text = `answer: ${prompt}`;
  if (path.endsWith("/chat/completions")) {
    const choices = [{ index: 0, finish_reason: "stop", message: { role: "assistant", content: text } }];
    return {
      prompt,
      answer: {
        id: "c",
        object: "chat.completion",
        choices,
        usage: { prompt_tokens: 9, completion_tokens: 5 },
      },
    };
  }
  if (path.endsWith("/v1/messages")) {
    const usage = { input_tokens: 9, output_tokens: 5 };
    return {
      prompt,
      answer: { type: "message", content: [{ type: "text", text }], stop_reason: "end_turn", usage },
    };
  }
  const candidates = [{ content: { role: "model", parts: [{ text }] }, finishReason: "STOP" }];
  return { prompt, answer: { candidates, usageMetadata: { promptTokenCount: 9, candidatesTokenCount: 5 } } };
}

function send(response: ServerResponse, answer: object): void {
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify(answer));
}

/** Undefined when the client was killed while it sent it. */
async function readBody(request: IncomingMessage): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of request) chunks.push(chunk as Buffer);
  } catch {
    return undefined;
  }
  return Buffer.concat(chunks).toString();
}

function stop(server: Server): Promise<void> {
  server.closeAllConnections();
  return new Promise((resolve) => server.close(() => resolve()));
}
