/**
 * A custom satellite: defined with zod, run by a service that this program embeds. Run it:
 *
 *   npx tsx docs/examples/satellite.ts
 *
 * Because the program brings the satellite itself, it runs in this process and only for its own project; what others wrote
 * is hosted elsewhere instead (docs/guide/satellites.md).
 */
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PerigeeError } from "perigee";
import { defineSatellite } from "perigee/satellites";
import { createPerigeeService } from "perigee/service";
import { z } from "zod";

const countWords = defineSatellite({
  name: "count-words",
  description: "Counts the words of texts.",
  input: z.strictObject({ texts: z.array(z.string()).min(1).describe("What to count in.") }),
  config: z.strictObject({ least: z.int().min(1).default(1).describe("Letters of a word that counts.") }),
  output: z.strictObject({ words: z.array(z.int()) }),
  isRepeatable: true,
  run: async ({ input, config, progress, signal }) => {
    const words: number[] = [];
    for (const text of input.texts) {
      signal.throwIfAborted();
      words.push(text.split(/\s+/).filter((word) => word.length >= config.least).length);
      progress(words.length, input.texts.length);
    }
    return { words };
  },
});

const service = await createPerigeeService({
  dataDir: await mkdtemp(join(tmpdir(), "perigee-satellite-")),
  satellites: { trusted: [{ project: "reports", satellites: [countWords] }] },
});
const { catalogue, executions } = service.satellites;
const caller = { project: "reports", keyId: undefined, isBeta: false };
const satellite = { namespace: "reports", name: "count-words" };

const { kind, inputSchema } = await catalogue.describe(caller, satellite);
console.log(`${kind}: ${JSON.stringify(inputSchema["required"])}`);

const texts = ["one two three", "a longer sentence of seven words in all"];
let execution = await executions.submit(caller, {
  satellite,
  input: { texts },
  config: { least: 3 },
  sla: "5m",
});
while (execution.status === "pending") {
  await new Promise((resolve) => setTimeout(resolve, 20));
  execution = await executions.execution("reports", execution.id);
}
console.log(`${execution.status}: ${JSON.stringify(execution.output)}`);

try {
  await executions.submit(caller, { satellite, input: { texts: [1] }, config: { most: 3 }, sla: "5m" });
} catch (error) {
  if (!(error instanceof PerigeeError)) throw error;
  for (const { path, message } of error.details["issues"] as { path: string; message: string }[])
    console.log(`  ${path}: ${message}`);
}
await service.close();
