/**
 * Checks a file of receipts, byte for byte: the chain of its hashes, its sums, and that nothing follows its last line.
 *
 *   bytes -> lines -> receipts --the line with the count--> last -> whole      anything else is a fault, with its line
 *
 * Memory is that of one line of at most 64 KiB.
 */
import { isObject, type JsonObject } from "../work/json.ts";
import { hashOf, NO_RECEIPTS, RECEIPT_BYTES_MAX, type ReceiptSums, splitHash } from "./receipts.ts";

const LF = 0x0a;

/** What was found: the sums and the last hash of a whole file, or the first fault. */
export type ReceiptCheck =
  | { readonly isWhole: true; readonly taskId: string; readonly sums: ReceiptSums; readonly hash: string }
  | { readonly isWhole: false; readonly line: number; readonly fault: string };

/** Members of a receipt that are summed, by their names in the sums. */
const SUMMED = {
  inputTokens: "input_tokens",
  cachedTokens: "cached_tokens",
  cacheWriteTokens: "cache_write_tokens",
  outputTokens: "output_tokens",
  listNano: "list_nano_usd",
  billedNano: "billed_nano_usd",
  ambiguousNano: "ambiguous_nano_usd",
  attempts: "attempts",
} as const;

/** One for a file: `add` its bytes in order, then `end`. */
export class ReceiptChecker {
  #rest: Buffer = Buffer.alloc(0);
  #line = 0;
  #hash = "";
  readonly #sums = { ...NO_RECEIPTS };
  #taskId: string | undefined;
  #fault: { readonly line: number; readonly fault: string } | undefined;

  add(bytes: Uint8Array): void {
    let rest = this.#rest.byteLength === 0 ? Buffer.from(bytes) : Buffer.concat([this.#rest, bytes]);
    for (let end = rest.indexOf(LF); end >= 0 && this.#fault === undefined; end = rest.indexOf(LF)) {
      this.#line += 1;
      const fault = this.#check(rest.subarray(0, end));
      if (fault !== undefined) this.#fault = { line: this.#line, fault };
      rest = rest.subarray(end + 1);
    }
    if (rest.byteLength > RECEIPT_BYTES_MAX)
      this.#fault ??= { line: this.#line + 1, fault: `the line is longer than ${RECEIPT_BYTES_MAX} bytes` };
    this.#rest = this.#fault === undefined ? Buffer.from(rest) : Buffer.alloc(0);
  }

  /** Whether more bytes change nothing. */
  get isOver(): boolean {
    return this.#fault !== undefined;
  }

  end(): ReceiptCheck {
    const [fault, taskId] = [this.#fault, this.#taskId];
    if (fault !== undefined) return { isWhole: false, ...fault };
    const line = this.#line + 1;
    if (this.#rest.byteLength > 0)
      return { isWhole: false, line, fault: "the line has no end: the file was cut" };
    if (taskId === undefined)
      return {
        isWhole: false,
        line,
        fault: "the last line, with count and sums, is missing: the file was cut",
      };
    return { isWhole: true, taskId, sums: this.#sums, hash: this.#hash };
  }

  /** What is wrong with a line. */
  #check(line: Buffer): string | undefined {
    if (this.#taskId !== undefined) return "a line follows the one with count and sums";
    const parts = splitHash(line);
    if (parts === undefined) return "the line does not end with its hash";
    if (hashOf(this.#hash, parts.text) !== parts.hash)
      return "the line is not as it was written, or the line before it is not the one that was";
    this.#hash = parts.hash;
    const value = parsed(parts.text);
    if (value === undefined) return "the line is not an object in JSON";
    return "count" in value ? this.#checkLast(value) : this.#addReceipt(value);
  }

  #addReceipt(value: JsonObject): string | undefined {
    for (const [sum, name] of Object.entries(SUMMED)) {
      const amount = value[name];
      if (!Number.isSafeInteger(amount) || (amount as number) < 0)
        return `${name} must be a whole number from 0, got ${JSON.stringify(amount)}`;
      this.#sums[sum as keyof typeof SUMMED] += amount as number; // checked
    }
    this.#sums.count += 1;
    if (value["met"] === true) this.#sums.met += 1;
    if (value["met"] === false) this.#sums.missed += 1;
    return undefined;
  }

  #checkLast(value: JsonObject): string | undefined {
    const sums = { count: "count", ...SUMMED, met: "met", missed: "missed" } as const;
    for (const [sum, name] of Object.entries(sums)) {
      const found = this.#sums[sum as keyof ReceiptSums];
      if (value[name] !== found)
        return `${name} is ${JSON.stringify(value[name])}, and its lines have ${found}`;
    }
    const taskId = value["task_id"];
    if (typeof taskId !== "string") return "task_id must be a text";
    this.#taskId = taskId;
    return undefined;
  }
}

function parsed(text: Buffer): JsonObject | undefined {
  try {
    const value: unknown = JSON.parse(text.toString());
    return isObject(value) ? value : undefined;
  } catch {
    return undefined; // said by the caller
  }
}
