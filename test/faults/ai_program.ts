/**
 * A program that uses the AI SDK on perigee, for tests that kill it: `node --import tsx ai_program.ts <source> <calls> <sla>`, where the source is
 * a data folder, or the address of a service and its key in one word. Prints one line for each answer.
 */
import { generateText } from "ai";
import { createPerigee } from "../../src/ai/index.ts";
import { createEngine } from "../../src/index.ts";

const [source = "", calls = "0", sla = "0"] = process.argv.slice(2);
const [url = "", apiKey] = source.split("#");
const engine = apiKey === undefined ? await createEngine({ dataDir: source, stateDir: false }) : undefined;
const perigee = createPerigee(engine ?? { url, apiKey: apiKey ?? "" }, {
  id: "killed program",
  ...(sla === "0" ? {} : { sla: Number(sla) }),
});
await Promise.all(
  Array.from({ length: Number(calls) }, async (_, index) => {
    const { text } = await generateText({ model: perigee("local:small"), prompt: `[[${index + 1}]] hello` });
    process.stdout.write(`${JSON.stringify({ call: index + 1, text })}\n`);
  }),
);
await engine?.close();
