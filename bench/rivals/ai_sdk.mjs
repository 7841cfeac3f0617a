/**
 * Vercel's AI SDK: `generateText`, which has no bound of its own on what is in flight, with p-map.
 */
import { createOpenAI } from "@ai-sdk/openai";
import { generateText } from "ai";
import pMap, { pMapSkip } from "p-map";
import { openOutput, readRequests } from "./lines.mjs";

export async function run({ input, output, baseUrl, inFlight }) {
  const openai = createOpenAI({ baseURL: baseUrl, apiKey: "bench" });
  const out = openOutput(output);
  const send = async ({ key, model, prompt, maxTokens, temperature }) => {
    const answer = await generateText({
      model: openai.chat(model),
      prompt,
      maxOutputTokens: maxTokens,
      temperature,
    });
    out.write(key, answer.text);
    return pMapSkip;
  };
  await pMap(readRequests(input), send, { concurrency: inFlight });
  await out.close();
}
