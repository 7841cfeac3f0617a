/**
 * What takes a command's output may fail before the command: `| head`, a terminal that was closed, a log shipper that died, a
 * full disk. None of that ends work.
 */
import { fstatSync, writeSync } from "node:fs";
import { PerigeeError } from "../errors.ts";

let failure: PerigeeError | undefined;

/**
 * From then on writes to a standard output or error that fails are lost. Only what standard output could not take for another
 * reason than that nobody reads it is a failure of the command: see `outputFailure`. Once for a process.
 */
export function outliveOutput(): void {
  process.stderr.on("error", () => undefined);
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    if (error.code === "EPIPE" || error.code === "EIO") return;
    failure ??= new PerigeeError(
      "output_unwritable",
      `standard output could not be written: ${error.message}`,
    );
  });
}

/** Why standard output lacks something; undefined while it does not. */
export function outputFailure(): PerigeeError | undefined {
  return failure;
}

/** Writes lines of a log to standard error. In a file it continues after its disk was full, where Node's stream would not. */
export function writeLog(lines: string): void {
  if (!isFile()) {
    process.stderr.write(lines);
    return;
  }
  try {
    writeSync(process.stderr.fd, lines);
  } catch {
    // these lines are lost
  }
}

function isFile(): boolean {
  try {
    return fstatSync(process.stderr.fd).isFile();
  } catch {
    return false; // closed
  }
}
