/**
 * A process that runs one command of the build after another, each as a process of its own would: `hosted_command.ts` starts it.
 *
 *   call -> its folder, environment, arguments and standard input are those of the process -> `main.js` is loaded anew -> it exits
 *        -> the code and what was written are the answer
 *
 * What `main.js` imports stays loaded, which is most of what a command costs: 0.5 of 0.75 s of CPU time of a `run` of two lines.
 */
import { Readable } from "node:stream";
import type { HostedCall } from "./hosted_command.ts";

const written = { stdout: "", stderr: "" };
let calls = 0;

for (const name of ["stdout", "stderr"] as const) {
  process[name].setMaxListeners(0); // each command adds its own
  process[name].write = (chunk: string | Uint8Array, ...rest: unknown[]): boolean => {
    written[name] += typeof chunk === "string" ? chunk : Buffer.from(chunk).toString();
    const done = rest.at(-1);
    if (typeof done === "function") process.nextTick(() => done());
    return true;
  };
}
process.setMaxListeners(0);
process.on("warning", (warning) => {
  written.stderr += `${warning.stack}\n`;
});
const exit = process.exit.bind(process);
process.on("disconnect", () => exit());
process.execArgv = [];
process.on("message", (call: HostedCall) => void run(call));

async function run({ main, dir, words, env, stdin }: HostedCall): Promise<void> {
  Object.assign(written, { stdout: "", stderr: "" });
  for (const name of Object.keys(process.env)) delete process.env[name];
  Object.assign(process.env, env);
  process.chdir(dir);
  process.argv = [process.execPath, main, ...words];
  process.exitCode = undefined;
  Object.defineProperty(process, "stdin", {
    configurable: true,
    value: Readable.from(stdin === "" ? [] : [Buffer.from(stdin)], { objectMode: false }),
  });
  process.exit = ((code) => {
    process.chdir("/"); // the folder is removed
    process.send?.({ code: Number(code ?? process.exitCode ?? 0), ...written });
  }) as typeof process.exit; // returns, and `main.js` does nothing after it
  calls += 1;
  await import(`file://${main}?call=${calls}`);
}
