/**
 * Failed lines of a task, read from its output as it streams: as many as are shown, then the stream is ended.
 *
 * Limits: lines of 1 MiB; a longer one is left out.
 */
import { ask } from "./service.js";

const LINE_CHARS_MAX = 1_048_576;

/** Yields `{ key, code, message, attempts, status }` of each failed line until the caller stops; ends early after a failure. */
export async function* errorsOf(taskId, { signal, complainTo }) {
  const path = `v0/files/output/${encodeURIComponent(taskId)}?view=errors`;
  const response = await ask("GET", path, { signal, complainTo });
  if (response?.body == null) return;
  for await (const line of linesOf(response.body)) {
    const { key, error } = JSON.parse(line);
    if (error == null) continue;
    const { code, message, attempts, provider, provider_status: status } = error;
    yield { key: key ?? "", code, message, attempts, provider, status };
  }
}

async function* linesOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  try {
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      const lines = (text + (value ?? "")).split("\n");
      text = lines.pop() ?? "";
      for (const line of lines) if (line.trim() !== "" && line.length <= LINE_CHARS_MAX) yield line;
      if (done) {
        if (text.trim() !== "") yield text;
        return;
      }
      if (text.length > LINE_CHARS_MAX) text = text.slice(0, LINE_CHARS_MAX + 1); // the rest of it is not kept
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}
