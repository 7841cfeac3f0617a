/**
 * The process that parses documents: one order at a time over its channel, one answer for each.
 *
 *   started -> ready -> (order -> answer)* -> killed by its parent, by its watch, or without memory
 *
 * It has no environment and no standard streams. `parser_watch.ts` ends it when it takes too much memory outside the heap,
 * or when its parent has ended.
 */
import { Worker } from "node:worker_threads";
import { parseDocument } from "./parse_document.ts";
import type { ParseOrder } from "./parsed_document.ts";

const [memoryMb] = process.argv.slice(2);
new Worker(new URL("./parser_watch.js", import.meta.url), {
  workerData: { bytesMax: Number(memoryMb) * 1024 * 1024, parent: process.ppid },
}).unref();

process.on("message", (order: ParseOrder) => {
  void parseDocument(order).then((result) => process.send?.(result));
});
process.on("disconnect", () => process.exit(0));
process.send?.("ready");
