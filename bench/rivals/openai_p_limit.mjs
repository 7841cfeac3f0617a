/**
 * The `openai` SDK with p-limit: one promise a line, all made at once.
 */
import OpenAI from "openai";
import pLimit from "p-limit";
import { chatBody, openOutput, readRequests } from "./lines.mjs";

export async function run({ input, output, baseUrl, inFlight }) {
  const client = new OpenAI({ baseURL: baseUrl, apiKey: "bench" });
  const out = openOutput(output);
  const limit = pLimit(inFlight);
  const answers = [];
  for await (const request of readRequests(input)) {
    answers.push(
      limit(async () => {
        const answer = await client.chat.completions.create(chatBody(request));
        out.write(request.key, answer.choices[0].message.content);
      }),
    );
  }
  await Promise.all(answers);
  await out.close();
}
