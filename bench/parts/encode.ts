/** Encoding: the body of a prompt of 600 bytes, 2 to 4 us; beside it JSON.stringify of the same body. */

import { CODECS, REQUEST } from "../shared/codec_cases.ts";
import type { PartBench } from "../shared/harness.ts";

const CALLS = 2_000;

export function open(): PartBench {
  return {
    parts: CODECS.map(({ name, codec }) => {
      const encoded = codec.encode(REQUEST, "some-model");
      if (!encoded.ok) throw new Error(`${name} must take the request`);
      const body: unknown = JSON.parse(Buffer.from(encoded.body).toString());
      return {
        name: `encode: ${name}`,
        of: "request",
        calls: CALLS,
        run: () => {
          for (let each = 0; each < CALLS; each += 1) codec.encode(REQUEST, "some-model");
        },
        beside: {
          name: "JSON.stringify alone",
          run: () => {
            for (let each = 0; each < CALLS; each += 1) Buffer.from(JSON.stringify(body));
          },
        },
      };
    }),
  };
}
