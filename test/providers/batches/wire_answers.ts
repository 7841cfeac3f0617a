/** Payloads and requests of batch wires for their tests. */
import type { BatchSettings } from "../../../src/providers/batches/batch_settings.ts";
import type { BatchPayload, BatchRequest, BatchWire } from "../../../src/providers/batches/batch_wire.ts";
import { batchWireOf } from "../../../src/providers/batches/batch_wires.ts";
import type { ProviderSettings } from "../../../src/providers/index.ts";

export const PAYLOAD: BatchPayload = {
  tag: "01HZTAG000",
  model: "gpt-x",
  endpoint: "chat",
  items: 2,
  bytes: 100,
};

/** The wire of a name at `https://batches.test/v1`, or as the settings say. */
export function wireOf(
  name: string,
  more: Partial<ProviderSettings> = {},
  given: BatchSettings = {},
): BatchWire {
  const settings = {
    name,
    protocol: "openai",
    baseUrl: "https://batches.test/v1",
    key: "k",
    ...more,
  } as const;
  const wire = batchWireOf(settings, given);
  if (wire === undefined) throw new Error(`no batch wire for ${name}`);
  return wire;
}

/** Method, address and JSON of a request; the texts around the lines where it holds them. */
export function shortOf(request: BatchRequest | undefined): unknown {
  if (request === undefined) return undefined;
  const { method, origin, path, body } = request;
  const at = `${method} ${origin}${path}`;
  if (body.kind === "lines") return [at, body.before, body.after];
  const text = Buffer.from(body.bytes).toString();
  return text === "" ? at : [at, JSON.parse(text)];
}

/** The bytes of a request whose lines are these, as the port describes them. */
export function bytesOf({ body }: BatchRequest, lines: readonly Uint8Array[]): Buffer {
  if (body.kind === "bytes") return Buffer.from(body.bytes);
  const separated = lines.flatMap((line, index) =>
    index < lines.length - 1 || body.separator === "\n" ? [line, Buffer.from(body.separator)] : [line],
  );
  return Buffer.concat([Buffer.from(body.before), ...separated, Buffer.from(body.after)]);
}
