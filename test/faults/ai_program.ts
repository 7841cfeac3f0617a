/**
 * A program that uses the AI SDK on perigee, for tests that kill it: `ai_program <source> <calls> <sla> <kind>`, where the source is
 * a data folder, or the address of a service and its key in one word, and the kind `chat` or `embedding`. Prints one line for each answer.
 */
import { embed, generateText } from "ai";

/** As the build has made them: the sources would be compiled again at each start. */
const built = (name: string): string => new URL(`../../dist/${name}.js`, import.meta.url).href;
const { createEngine }: typeof import("../../src/index.ts") = await import(built("index"));
const { createPerigee }: typeof import("../../src/ai/index.ts") = await import(built("ai/index"));

const [source = "", calls = "0", sla = "0", kind = "chat"] = process.argv.slice(2);
const [url = "", apiKey] = source.split("#");
const local = { embeddingInputsMax: 2 }; // several requests, so that a kill finds some answered
const engine =
  apiKey === undefined
    ? await createEngine({ dataDir: source, stateDir: false, providers: { local } })
    : undefined;
const perigee = createPerigee(engine ?? { url, apiKey: apiKey ?? "" }, {
  id: "killed program",
  ...(sla === "0" ? {} : { sla: Number(sla) }),
});
await Promise.all(
  Array.from({ length: Number(calls) }, async (_, index) => {
    process.stdout.write(
      `${JSON.stringify({ call: index + 1, text: await answerOf(`[[${index + 1}]] hello`) })}\n`,
    );
  }),
);
await engine?.close();

async function answerOf(prompt: string): Promise<string> {
  if (kind === "chat") return (await generateText({ model: perigee("local:small"), prompt })).text;
  const { embedding } = await embed({ model: perigee.embeddingModel("local:small"), value: prompt });
  return `answer ${embedding[0]}`;
}
