/**
 * `perigee audit` without a log: checks the chain of a data folder's audit log, also while `perigee serve` writes it.
 */
import { systemClock } from "../../clock.ts";
import { systemDisk } from "../../disk.ts";
import { PerigeeError } from "../../errors.ts";
import { type AuditCheck, verifyAudit } from "../../store/audit/audit_check.ts";
import { count } from "../numbers.ts";

/** Returns 0 when the chain is whole; throws `store_damaged` with the place where it is not. */
export async function auditLog(dataDir: string, isJson: boolean): Promise<number> {
  const found = await verifyAudit({ dataDir, disk: systemDisk, clock: systemClock });
  if (!found.isWhole) throw broken(found);
  const { lines, firstLine, lastHash } = found;
  const json = { lines, first_line: firstLine, last_hash: lastHash };
  const text = `${count(lines)} lines, whole${firstLine > 1 ? ` from line ${count(firstLine)} on` : ""}; last hash ${lastHash}\n`;
  process.stdout.write(isJson ? `${JSON.stringify(json)}\n` : text);
  return 0;
}

function broken({ file, line, reason }: Extract<AuditCheck, { readonly isWhole: false }>): PerigeeError {
  const what = reason === "changed" ? "is not as it was written" : "does not follow the line before it";
  return new PerigeeError("store_damaged", `${file}: line ${line} ${what}`, {
    details: { file, line, reason },
  });
}
