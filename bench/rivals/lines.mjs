/**
 * What all rivals share: the requests of the input file, one by one, and the output file, one line a key.
 */
import { createReadStream, createWriteStream } from "node:fs";
import { createInterface } from "node:readline";

/** Yields `{ key, model, prompt, maxTokens, temperature }` for each line. */
export async function* readRequests(path) {
  for await (const line of createInterface({
    input: createReadStream(path),
    crlfDelay: Number.POSITIVE_INFINITY,
  })) {
    const { key, request } = JSON.parse(line);
    yield {
      key,
      model: request.model.slice("openai:".length),
      prompt: request.contents[0].parts[0].text,
      maxTokens: request.generation_config.max_output_tokens,
      temperature: request.generation_config.temperature,
    };
  }
}

/** The request as OpenAI's chat completions take it. */
export function chatBody({ model, prompt, maxTokens, temperature }) {
  return { model, messages: [{ role: "user", content: prompt }], max_tokens: maxTokens, temperature };
}

/** Nothing waits for the disk here, as in most scripts: a kill loses what the stream still holds. */
export function openOutput(path) {
  const stream = createWriteStream(path);
  return {
    write(key, text) {
      stream.write(`${JSON.stringify({ key, output: { type: "text", text } })}\n`);
    },
    close: () => new Promise((resolve, reject) => stream.on("error", reject).end(resolve)),
  };
}
