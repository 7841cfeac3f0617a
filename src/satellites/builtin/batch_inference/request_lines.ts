/**
 * A file of prompts as a file of requests for one model, line by line as it arrives.
 *
 *   {"key", "prompt"} | {"key", "request"} -> {"key", "request": {"model", "contents", "generation_config"}}
 *
 * A line of the layout for requests (interface 2.5) keeps all but its model; its own settings win. A line that is
 * neither passes as it is, and fails under its key when it is read as a request. Blank lines stay.
 *
 * Limits: lines of 10 MiB; a longer one is refused.
 */
import { PerigeeError } from "../../../errors.ts";
import { eachLine, wholeLinesEnd } from "../../../jsonl/lines.ts";
import { markNumbers, restoreNumbers } from "../../../jsonl/numbers.ts";
import { LINE_BYTES_MAX } from "../../../jsonl/read.ts";
import { isObject } from "../../../work/json.ts";

export interface RequestSettings {
  /** `<provider>:<name>` */
  readonly model: string;
  readonly generation_config?: { readonly [name: string]: number };
  /** Before each prompt; requests stay as they are. */
  readonly instruction?: string | undefined;
}

const NEWLINE = Buffer.from("\n");
const decoder = new TextDecoder("utf-8", { fatal: true });

/** Throws `too_large` for a line above the limit, and what `chunks` throws. */
export async function* requestLines(
  chunks: AsyncIterable<Uint8Array>,
  settings: RequestSettings,
): AsyncGenerator<Uint8Array> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const chunk of chunks) {
    const bytes = rest.length === 0 ? Buffer.from(chunk) : Buffer.concat([rest, chunk]);
    const end = wholeLinesEnd(bytes);
    rest = bytes.subarray(end);
    if (rest.length > LINE_BYTES_MAX)
      throw new PerigeeError("too_large", `a line is longer than ${LINE_BYTES_MAX} bytes`);
    if (end > 0) yield rewritten(bytes.subarray(0, end), settings);
  }
  if (rest.length > 0) yield rewritten(rest, settings);
}

function rewritten(bytes: Uint8Array, settings: RequestSettings): Uint8Array {
  const lines: Uint8Array[] = [];
  eachLine(bytes, (start, end) => {
    const own = bytes.subarray(start, end);
    const text = asRequest(own, settings);
    lines.push(text === undefined ? own : Buffer.from(text), NEWLINE);
  });
  return Buffer.concat(lines);
}

/** Undefined for a line that stays as it is. */
function asRequest(
  bytes: Uint8Array,
  { model, generation_config, instruction }: RequestSettings,
): string | undefined {
  let line: unknown;
  try {
    line = JSON.parse(markNumbers(decoder.decode(bytes)));
  } catch {
    return undefined;
  }
  if (!isObject(line)) return undefined;
  const { key, prompt, request, ...others } = line;
  if (isObject(request)) {
    const own = isObject(request["generation_config"]) ? request["generation_config"] : {};
    const config = { ...generation_config, ...own };
    return restoreNumbers(
      JSON.stringify({ ...others, key, request: { ...request, model, generation_config: config } }),
    );
  }
  if (typeof prompt !== "string") return undefined;
  const contents = [
    { parts: [{ text: instruction === undefined ? prompt : `${instruction}\n\n${prompt}` }] },
  ];
  return JSON.stringify({
    ...others,
    key,
    request: { model, contents, ...(generation_config && { generation_config }) },
  });
}
