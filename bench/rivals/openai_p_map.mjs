/**
 * The `openai` SDK with p-map, which takes the lines one by one as places in flight become free.
 */
import OpenAI from "openai";
import pMap, { pMapSkip } from "p-map";
import { chatBody, openOutput, readRequests } from "./lines.mjs";

export async function run({ input, output, baseUrl, inFlight }) {
  const client = new OpenAI({ baseURL: baseUrl, apiKey: "bench" });
  const out = openOutput(output);
  const send = async (request) => {
    const answer = await client.chat.completions.create(chatBody(request));
    out.write(request.key, answer.choices[0].message.content);
    return pMapSkip;
  };
  await pMap(readRequests(input), send, { concurrency: inFlight });
  await out.close();
}
