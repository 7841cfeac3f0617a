/**
 * A provider of OpenAI's, Anthropic's and Gemini's protocol whose streams a test scripts, and an engine before it.
 */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { ConfigOptions } from "../../src/index.ts";

/** Writes events, and what ends the response. */
export interface Events {
  send(...data: readonly (object | string)[]): void;
  end(): void;
  /** Breaks the connection off. */
  cut(): void;
  /** Resolves when its caller has left. */
  readonly left: Promise<void>;
}

/** What a provider received. */
// biome-ignore lint/suspicious/noExplicitAny: bodies of many shapes
export type Body = any;

/** Answers a request with events. */
export type Streams = (body: Body, events: Events, response: ServerResponse) => void | Promise<void>;

/** Close it. */
export class StreamingProvider {
  /** In the order of their arrival. */
  readonly received: Body[] = [];
  streams: Streams = () => undefined;
  readonly #server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const body = JSON.parse(Buffer.concat(chunks).toString()) as Body;
      this.received.push(body);
      void this.streams(body, eventsOf(response), response);
    });
  });

  /** The configuration of an engine before it. */
  async config(): Promise<ConfigOptions> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    const origin = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
    return {
      providers: {
        openai: { baseUrl: `${origin}/v1`, key: "sk-1" },
        anthropic: { baseUrl: `${origin}/v1`, key: "sk-ant" },
        gemini: { baseUrl: `${origin}/v1beta`, key: "AIza" },
      },
    };
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    return new Promise((resolve) => this.#server.close(() => resolve()));
  }
}

function eventsOf(response: ServerResponse): Events {
  const begin = (): void => {
    if (!response.headersSent) response.writeHead(200, { "content-type": "text/event-stream" });
  };
  return {
    send: (...data) => {
      begin();
      for (const each of data)
        response.write(`data: ${typeof each === "string" ? each : JSON.stringify(each)}\n\n`);
    },
    end: () => response.end(),
    cut: () => response.destroy(),
    left: new Promise((resolve) => response.on("close", () => resolve())),
  };
}

/** A chunk of OpenAI's. */
export function chunk(delta: object, finish_reason: string | null = null): object {
  const choices = [{ index: 0, delta, finish_reason }];
  return { id: "chatcmpl-1", object: "chat.completion.chunk", created: 1, model: "gpt-5-mini", choices };
}

export const USAGE_CHUNK: object = {
  ...chunk({}),
  choices: [],
  usage: { prompt_tokens: 7, completion_tokens: 3, total_tokens: 10 },
};
