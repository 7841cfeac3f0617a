/**
 * `perigee receipts verify`: checks a file of receipts, byte for byte.
 */
import { createReadStream } from "node:fs";
import { PerigeeError } from "../../errors.ts";
import { ReceiptChecker } from "../../jsonl/receipt_check.ts";
import { usdText } from "../../price/money.ts";
import { usdOfNano } from "../../price/nano.ts";
import { errorJson } from "../exit.ts";
import { requireFile } from "../input.ts";
import { count } from "../numbers.ts";

interface ReceiptsArguments {
  readonly json?: boolean;
}

/** Returns 0 for a whole file; throws `output_changed` with the line that is not as it was written. */
export async function verifyReceipts(file: string, options: Record<string, unknown>): Promise<number> {
  const given: ReceiptsArguments = options; // commander's own shape, declared in run/status_commands.ts
  try {
    await requireFile(file);
    const checker = new ReceiptChecker();
    for await (const bytes of createReadStream(file)) {
      checker.add(bytes as Uint8Array); // a stream without an encoding has bytes
      if (checker.isOver) break;
    }
    const found = checker.end();
    if (!found.isWhole)
      throw new PerigeeError("output_changed", `${file}: line ${found.line}: ${found.fault}`, {
        details: { file, line: found.line },
      });
    const { sums, taskId, hash } = found;
    const json = {
      ...{ receipts: sums.count, task_id: taskId },
      ...{ input_tokens: sums.inputTokens, output_tokens: sums.outputTokens },
      ...{ list_nano_usd: sums.listNano, billed_nano_usd: sums.billedNano },
      ...{ ambiguous_nano_usd: sums.ambiguousNano, attempts: sums.attempts },
      ...{ met: sums.met, missed: sums.missed, last_hash: hash },
    };
    const billed = usdText(usdOfNano(sums.billedNano));
    const text = `${count(sums.count)} receipts, whole: ${billed} billed; last hash ${hash}\n`;
    process.stdout.write(given.json === true ? `${JSON.stringify(json)}\n` : text);
    return 0;
  } catch (error) {
    if (given.json === true) process.stdout.write(`${errorJson(error)}\n`);
    throw error;
  }
}
