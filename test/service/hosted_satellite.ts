/**
 * A community satellite that projects of a service have registered, on a host of its own: `satellite/<project>/shout`.
 */
import { afterAll } from "vitest";
import { systemClock } from "../../src/clock.ts";
import { AllowList } from "../../src/egress/address.ts";
import { createEgress } from "../../src/egress/egress.ts";
import { createOrbitHost } from "../../src/satellites/orbit/host.ts";
import { defineSatellite } from "../../src/satellites/sdk/define.ts";
import { describeSatellite, toWire } from "../../src/satellites/sdk/description.ts";
import { createGuardedHttp } from "../../src/satellites/sdk/guarded_http.ts";
import type { AnySatellite } from "../../src/satellites/sdk/satellite.ts";
import { z } from "../../src/schema.ts";
import type { Whole } from "./whole.ts";

/** Says a text louder. */
export const shout: AnySatellite = defineSatellite({
  ...{ name: "shout", description: "Says it louder.", isRepeatable: true },
  input: z.strictObject({ text: z.string().describe("What to say.") }),
  config: z.strictObject({ mark: z.string().default("!") }),
  output: z.strictObject({ said: z.string() }),
  example: { input: { text: "hi" }, config: {}, output: { said: "HI!" } },
  run: async ({ input, config }) => ({ said: input.text.toUpperCase() + config.mark }),
});

/** A run of it. */
export const SHOUTED = { input: { text: "hi" } };

/** The body of its registration. */
export function shoutAt(url: string): object {
  return { kind: "community", url, satellite: toWire(describeSatellite(shout)) };
}

/** Resolves with where the host is, once it trusts every project. Closed after the file's tests. */
export async function hostShout(
  call: Whole["call"],
  projects: readonly { readonly project: string; readonly key: string | undefined }[],
): Promise<string> {
  const put = (project: string, key: string | undefined, url: string) =>
    call("PUT", `/v1/satellites/${project}/shout`, { key, body: shoutAt(url) });
  const secrets = [];
  for (const { project, key } of projects) {
    const { text } = await put(project, key, "http://127.0.0.1:9/");
    const { secret } = JSON.parse(text) as { secret: string };
    secrets.push({ secret });
  }
  const http = createGuardedHttp(createEgress({ clock: systemClock, allow: new AllowList(["127.0.0.0/8"]) }));
  const host = createOrbitHost({ clock: systemClock, http, satellites: [shout], secrets });
  const url = await host.listen({ host: "127.0.0.1", port: 0 });
  afterAll(() => host.close());
  for (const { project, key } of projects) await put(project, key, url);
  return url;
}
