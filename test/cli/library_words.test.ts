import { expect, it } from "vitest";
import { inOptions, summaryInOptions } from "../../src/cli/run/library_words.ts";
import { streamChanged } from "../../src/engine/files/spool.ts";
import type { Summary } from "../../src/engine/items/progress.ts";
import { outputChanged } from "../../src/engine/journal/output.ts";
import { PILOT_DECLINED } from "../../src/engine/runs/run.ts";

const said = (error: unknown): string => (inOptions(error) as Error).message;

it("Errors of the library name calls and options, and those of commands name commands and flags", () => {
  const changed = outputChanged("/work/out.jsonl", undefined, 10);
  expect(changed.message).toBe(
    "/work/out.jsonl does not exist: it was moved, cut or changed; put it back, or call run again with the same options to rewrite it from the lines that are left and request only the missing answers",
  );
  expect(said(changed)).toBe(
    "/work/out.jsonl does not exist: it was moved, cut or changed; put it back, or run the same command again (or perigee repair out.jsonl) to rewrite it from the lines that are left and request only the missing answers",
  );
  const stream = streamChanged("other");
  expect(stream.message).toBe(
    "the input has other lines than the one that this run began with; return the same lines again, or use another out or id for a new run",
  );
  expect(said(stream)).toBe(
    "the input has other lines than the one that this run began with; pass the same input again, or use another --out for a new run",
  );
  const other = new Error("call run with update");
  expect(inOptions(other)).toBe(other);
});

it("A run that is not continued after its pilot says so without the name of the library's option", () => {
  const summaryOf = (reason: string): Summary => ({ reason }) as Partial<Summary> as Summary; // nothing else is read
  expect(summaryInOptions(summaryOf(PILOT_DECLINED))).toEqual({ reason: "not continued after the pilot" });
  expect(summaryInOptions(summaryOf("outage"))).toEqual({ reason: "outage" });
});
