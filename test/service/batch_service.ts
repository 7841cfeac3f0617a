/**
 * The whole service over a fake provider with batches on a real socket, and a way to submit work that goes into a batch.
 */
import type { ConfigOptions } from "../../src/engine/config/config_options.ts";
import { createPerigeeService, type PerigeeServiceOptions } from "../../src/service/index.ts";
import { always } from "../batch_servers/chance.ts";
import { FakeOpenAiBatches } from "../batch_servers/openai.ts";
import { serve } from "../batch_servers/serve.ts";
import { KEY } from "./page_world.ts";

export interface BatchService {
  readonly url: string;
  readonly fake: FakeOpenAiBatches;
  /** How often the provider was asked for a batch. */
  polls(): number;
  /** Puts a file of so many requests and submits it, due in a day; returns the id of its task. */
  submit(items: number): Promise<string>;
  call(method: string, path: string, body?: unknown): Promise<Response>;
  close(): Promise<void>;
}

/** Batches are at work for an hour. */
export async function openBatchService(
  options: Partial<PerigeeServiceOptions> & {
    readonly dataDir: string;
    readonly lanes?: ConfigOptions["lanes"];
  },
): Promise<BatchService> {
  let polls = 0;
  const hour = always(3_600_000);
  const fake = new FakeOpenAiBatches({
    ...{ seed: 1, nowMs: Date.now, waits: hour, times: hour },
    faults: ({ kind }) => {
      if (kind === "get") polls += 1;
      return undefined;
    },
  });
  const provider = await serve(fake);
  const service = await createPerigeeService({
    env: {},
    threads: 1,
    providers: { openai: { baseUrl: `${provider.url}/v1`, key: "sk-a" } },
    lanes: { deny: ["flex"] },
    verifier: {
      verify: (header) =>
        header === `Bearer ${KEY}`
          ? {
              keyId: "k1",
              project: "red",
              scopes: new Set(["infer:read", "infer:write", "files:write"]),
              isBeta: false,
            }
          : undefined,
    },
    ...options,
  });
  const url = await service.listen({ port: 0 });
  const call = (method: string, path: string, body?: unknown) =>
    fetch(url + path, {
      method,
      headers: {
        authorization: `Bearer ${KEY}`,
        ...(body instanceof FormData || body === undefined ? {} : { "content-type": "application/json" }),
      },
      ...(body === undefined ? {} : { body: body instanceof FormData ? body : JSON.stringify(body) }),
    });
  return {
    url: `${url}/`,
    fake,
    call,
    polls: () => polls,
    async submit(items) {
      const lines = Array.from({ length: items }, (_, index) =>
        JSON.stringify({
          key: `k${index}`,
          request: {
            model: "openai:gpt-5-mini",
            contents: [{ role: "user", parts: [{ text: `Question ${index}` }] }],
            generation_config: { max_output_tokens: 64 },
          },
        }),
      );
      const form = new FormData();
      form.set("file", new Blob([`${lines.join("\n")}\n`]), "in.jsonl");
      const put = (await (await call("PUT", "/v0/files/in.jsonl", form)).json()) as {
        readonly file_id: string;
      };
      const answer = await call("POST", "/v0/infer/", [{ file_id: put.file_id, sla: 24 * 60 }]);
      const task = (await answer.json()) as { readonly task_id?: string };
      if (task.task_id === undefined) throw new Error(JSON.stringify(task));
      return task.task_id;
    },
    async close() {
      await service.close();
      await provider.close();
    },
  };
}
