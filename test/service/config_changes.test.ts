import { expect, it } from "vitest";
import { noteConfigChanges } from "../../src/service/operate/config_changes.ts";
import type { AuditEvent } from "../../src/store/audit/audit_line.ts";
import { createMemoryStore } from "../../src/store/memory.ts";
import { EVERY_PROJECT } from "../../src/store/records.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";

it("notes the names of settings that are new, gone or different since the last start, and keeps no value", async () => {
  const noted: AuditEvent[] = [];
  const store = createMemoryStore();
  const audit = { note: (event: AuditEvent) => noted.push(event) };
  const note = noteConfigChanges.bind(undefined, store, new FakeClock(), audit);
  const settings = {
    limits: { openai: { rpm: 5 } },
    projects: { acme: { maxCostUsd: 1 } },
    publicUrl: undefined,
  };
  const env = { OPENAI_API_KEY: "sk-secret", HOME: "/root", PERIGEE_LIMIT_OPENAI_RPM: "5" };
  await note(settings, env);
  await note(settings, { ...env, HOME: "/elsewhere" });
  expect(noted).toEqual([]);
  const { projects: _, ...fewer } = settings;
  await note({ ...fewer, isBehindProxy: true }, { ...env, OPENAI_API_KEY: "sk-other" });
  expect(noted).toEqual(
    ["projects", "OPENAI_API_KEY", "isBehindProxy"].map((setting) => ({ kind: "config.changed", setting })),
  );
  const [record] = await store.records(EVERY_PROJECT, { collection: "config", limit: 9 });
  expect(record?.body).not.toMatch(/secret|other|acme/);
});
