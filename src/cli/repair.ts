/**
 * `perigee repair OUT`: rewrites an output from the lines that are left; `perigee run` then requests only the rest. Sends nothing.
 */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { openEngine } from "../engine/engine.ts";
import { movedTask } from "../engine/files/moved_task.ts";
import { runOfOutput } from "../engine/files/stored_tasks.ts";
import { repairTask } from "../engine/reopening/found_task.ts";
import { PerigeeError } from "../errors.ts";
import { tableAnswers } from "./tables/answers_place.ts";

interface RepairArguments {
  readonly data?: string;
  readonly json?: boolean;
}

/** Returns the exit code; throws `not_found` where no run of the folder has the output. */
export async function repair(out: string, options: Record<string, unknown>): Promise<number> {
  const { data = `${out}.perigee`, json } = options as RepairArguments; // commander's own shape, declared in main.ts
  if (!existsSync(data))
    throw new PerigeeError("not_found", `no data folder at ${data}; name that of the run with --data`);
  const onNotice = (message: string): void => void process.stderr.write(`perigee: ${message}\n`);
  const { engine, core } = await openEngine({ dataDir: data, stateDir: false, env: {}, onNotice });
  try {
    const path = resolve(out);
    const { storage } = core;
    const task =
      (await runOfOutput(storage.store, path)) ??
      (await runOfOutput(storage.store, tableAnswers(data))) ??
      (await movedTask(storage, `out:${path}`, path));
    if (task === undefined) throw new PerigeeError("not_found", `no run in ${data} has the output ${out}`);
    const { kept, lost, change, damaged, isIntact } = await repairTask(core, task);
    if (json === true)
      process.stdout.write(`${JSON.stringify({ output: out, kept, lost, ...(change && { change }) })}\n`);
    else if (isIntact)
      process.stderr.write(`${out} is as it was written (${kept} lines); nothing was changed\n`);
    else {
      const next = lost === 0 ? "" : "; repeat the command of the run to request the missing answers";
      const old = damaged === undefined ? "" : `; the changed file is kept as ${damaged}`;
      const what = change === undefined ? "" : ` (it ${change})`;
      process.stderr.write(
        `${out}${what} was rewritten: ${kept} lines were left, ${lost} are lost${next}${old}\n`,
      );
    }
    return 0;
  } finally {
    await engine.close();
  }
}
