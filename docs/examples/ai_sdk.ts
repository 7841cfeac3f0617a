/**
 * Calls of the AI SDK as durable work: run it twice, and the second run asks nothing again. Needs the package `ai`, and no key. Run it:
 *
 *   npx tsx docs/examples/ai_sdk.ts [DATA FOLDER]
 */
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { generateText } from "ai";
import { createEngine } from "perigee";
import { createPerigee } from "perigee/ai";

const dataDir = process.argv[2] ?? (await mkdtemp(join(tmpdir(), "perigee-ai-sdk-")));
const engine = await createEngine({ dataDir });
const perigee = createPerigee(engine, { id: "colours", sla: 60 });

const answers = await Promise.all(
  ["red", "green", "blue"].map((colour) =>
    generateText({ model: perigee("echo:test"), prompt: `Name something ${colour}.` }),
  ),
);
for (const { text, providerMetadata } of answers)
  console.log(`${text} (task ${String(providerMetadata?.["perigee"]?.["taskId"])})`);
await engine.close();
