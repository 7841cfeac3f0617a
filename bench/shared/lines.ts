/** Lines of 600 bytes that benches of parts read: plain words in three layouts. */

export type Layout = "interface" | "openai" | "bengali";

/** Lines with their line ends, in one piece; every key differs. */
export function linesOf(layout: Layout, count: number): Buffer {
  const lineOf = { interface: interfaceLine, openai: openaiLine, bengali: bengaliLine }[layout];
  return Buffer.from(Array.from({ length: count }, (_, index) => `${lineOf(index)}\n`).join(""));
}

function interfaceLine(index: number): string {
  return JSON.stringify({
    key: `item-${index}`,
    request: requestOf(`${index} ${"lorem ipsum dolor ".repeat(24)}`),
  });
}

function bengaliLine(index: number): string {
  return JSON.stringify({
    key: `item-${index}`,
    request: requestOf(`${index} ${"জেনেটের হাঁসগুলি ".repeat(9)}`),
  });
}

function requestOf(text: string): object {
  return {
    model: "openai:gpt-4o-mini",
    contents: [{ parts: [{ text }] }],
    generation_config: { temperature: 0, max_output_tokens: 512 },
  };
}

function openaiLine(index: number): string {
  const messages = [
    { role: "system", content: "You are a careful tutor of school mathematics." },
    { role: "user", content: `${index} ${"lorem ipsum dolor ".repeat(19)}` },
  ];
  const body = { model: "gpt-4o-mini", messages, temperature: 0, max_tokens: 512 };
  return JSON.stringify({ custom_id: `item-${index}`, method: "POST", url: "/v1/chat/completions", body });
}
