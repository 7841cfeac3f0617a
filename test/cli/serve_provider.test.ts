/**
 * `perigee serve` with a provider that is a module beside its configuration, as a process.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createKey } from "../faults/killed_service.ts";
import { type HeardService, startHeard } from "../heard_service.ts";

let dir: string;
let service: HeardService | undefined;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "perigee-serve-provider-"));
  mkdirSync(join(dir, "settings"));
});
afterEach(() => {
  service?.child.kill("SIGKILL");
  service = undefined;
  rmSync(dir, { recursive: true, force: true });
});

function configure(module: string): void {
  writeFileSync(join(dir, "settings/my_provider.js"), module);
  const providers = { mine: { module: "./my_provider.js" } };
  writeFileSync(join(dir, "settings/perigee.json"), JSON.stringify({ providers }));
}

const FLAGS = ["--data", "data", "--config", "settings/perigee.json"];

interface Posted {
  readonly status: string;
  readonly objects: readonly {
    readonly status: string;
    readonly output?: { readonly text: string };
    readonly usage: object;
    readonly model?: string;
    readonly attempts?: number;
    readonly error: { readonly code: string } | null;
  }[];
}

describe("perigee serve with module in its configuration", () => {
  it("answers posted items by the function that the file beside the configuration exports, with retries", async () => {
    configure(`
      const seen = new Set();
      export default async ({ model, messages }) => {
        const { content } = messages.at(-1);
        if (content === "never") throw Object.assign(new Error("no"), { retryable: false });
        if (content === "later" && !seen.has(content)) {
          seen.add(content);
          throw Object.assign(new Error("busy"), { retryable: true, retryAfterMs: 10 });
        }
        return { text: model + ": " + content.toUpperCase(), usage: { inputTokens: 3, outputTokens: 4 } };
      };`);
    const key = await createKey(join(dir, "data"));
    service = await startHeard(dir, FLAGS);
    const items = ["now", "later", "never"].map((input) => ({ model: "mine:small", input }));
    const answer = await fetch(`${service.url}/v0/infer/`, {
      method: "POST",
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      body: JSON.stringify(items),
    });
    const { status, objects } = (await answer.json()) as Posted;
    expect([answer.status, status]).toEqual([200, "completed"]);
    expect(objects.map(({ output, error }) => output?.text ?? error?.code)).toEqual([
      "small: NOW",
      "small: LATER",
      expect.stringMatching(/^[a-z_]+$/),
    ]);
    expect(objects[0]).toMatchObject({ usage: { input_tokens: 3, output_tokens: 4 }, attempts: 1 });
    expect(objects[1]).toMatchObject({ attempts: 2 });
    service.child.kill("SIGTERM");
    await service.ended;
    expect(service.child.exitCode).toBe(0);
  });

  it("ends on SIGTERM, although the module has a timer that never ends", async () => {
    configure("setInterval(() => undefined, 1_000); export default () => ({ text: '' });");
    service = await startHeard(dir, FLAGS);
    service.child.kill("SIGTERM");
    expect(await service.ended).toBe(0);
  });

  it("does not start when the module is missing, and names the file and its place in the configuration", async () => {
    configure("export default () => ({ text: '' });");
    rmSync(join(dir, "settings/my_provider.js"));
    const reason = await startHeard(dir, FLAGS).then(
      () => "started",
      (error: Error) => error.message,
    );
    expect(reason).toContain("my_provider.js");
    expect(reason).toContain("providers.mine.module");
  });
});
