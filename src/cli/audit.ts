/**
 * `perigee audit`: checks the chain of a data folder's audit log, also while `perigee serve` writes it.
 */
import { systemClock } from "../clock.ts";
import { systemDisk } from "../disk.ts";
import { PerigeeError } from "../errors.ts";
import { type AuditCheck, verifyAudit } from "../store/audit/audit_check.ts";
import { errorJson } from "./exit.ts";
import { count } from "./numbers.ts";

interface AuditArguments {
  readonly data: string;
  readonly json?: boolean;
}

/** Returns 0 when the chain is whole; throws `store_damaged` with the place where it is not. */
export async function audit(options: Record<string, unknown>): Promise<number> {
  const given = options as unknown as AuditArguments; // commander's own shape, declared in main.ts
  try {
    const found = await verifyAudit({ dataDir: given.data, disk: systemDisk, clock: systemClock });
    if (!found.isWhole) throw broken(found);
    const { lines, firstLine, lastHash } = found;
    const json = { lines, first_line: firstLine, last_hash: lastHash };
    const text = `${count(lines)} lines, whole${firstLine > 1 ? ` from line ${count(firstLine)} on` : ""}; last hash ${lastHash}\n`;
    process.stdout.write(given.json === true ? `${JSON.stringify(json)}\n` : text);
    return 0;
  } catch (error) {
    if (given.json === true) process.stdout.write(`${errorJson(error)}\n`);
    throw error;
  }
}

function broken({ file, line, reason }: Extract<AuditCheck, { readonly isWhole: false }>): PerigeeError {
  const what = reason === "changed" ? "is not as it was written" : "does not follow the line before it";
  return new PerigeeError("store_damaged", `${file}: line ${line} ${what}`, {
    details: { file, line, reason },
  });
}
