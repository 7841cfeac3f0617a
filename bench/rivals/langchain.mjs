/**
 * LangChain's `.batch` with `maxConcurrency`: it takes all prompts and gives all answers at once.
 */
import { ChatOpenAI } from "@langchain/openai";
import { openOutput, readRequests } from "./lines.mjs";

export async function run({ input, output, baseUrl, inFlight }) {
  const requests = [];
  for await (const request of readRequests(input)) requests.push(request);
  const [{ model, maxTokens, temperature }] = requests;
  const chat = new ChatOpenAI({
    model,
    maxTokens,
    temperature,
    apiKey: "bench",
    configuration: { baseURL: baseUrl },
  });
  const prompts = requests.map((request) => request.prompt);
  const answers = await chat.batch(prompts, { maxConcurrency: inFlight });
  const out = openOutput(output);
  for (const [index, answer] of answers.entries()) out.write(requests[index].key, answer.content);
  await out.close();
}
