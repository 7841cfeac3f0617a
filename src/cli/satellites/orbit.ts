/**
 * `perigee orbit`: hosts the satellites of a file, and prints what they say of themselves.
 *
 *   loading -> {"url"} on stdout -> first SIGTERM, SIGINT or SIGHUP: what runs has 30 s -> exit 0; a second one ends at once
 *
 * The code runs here, in a process that has no data folder: engines call it with signed requests.
 */

import { readFile } from "node:fs/promises";
import { systemClock } from "../../clock.ts";
import { isLoopbackHost, parseAllowList } from "../../egress/address.ts";
import { createEgress } from "../../egress/egress.ts";
import { PerigeeError } from "../../errors.ts";
import { createOrbitHost, type HostSecret } from "../../satellites/orbit/host.ts";
import { toWire } from "../../satellites/sdk/description.ts";
import { createGuardedHttp } from "../../satellites/sdk/guarded_http.ts";
import { writeLog } from "../closed_output.ts";
import { signalled } from "../signals.ts";
import { descriptionsOf, satellitesOf } from "./orbit_file.ts";

/** Options as commander parses them. */
interface ServeArguments {
  readonly host: string;
  readonly port: number;
  readonly behindProxy?: boolean;
}

/** Returns the exit code when the host has ended; throws for what `exitCodeOf` knows. */
export async function orbitServe(file: string, options: Record<string, unknown>): Promise<number> {
  const { host, port, behindProxy } = options as unknown as ServeArguments; // commander's own shape, declared in main.ts
  if (behindProxy !== true && !isLoopbackHost(host))
    throw new PerigeeError(
      "usage",
      `refusing to listen on ${host} without TLS: inputs and secrets would be readable on the network; put a TLS proxy in front and add --behind-proxy, or listen on 127.0.0.1`,
    );
  const allow = parseAllowList(process.env["PERIGEE_EGRESS_ALLOW"]);
  const opened = createOrbitHost({
    clock: systemClock,
    http: createGuardedHttp(createEgress({ clock: systemClock, allow })),
    satellites: await satellitesOf(file),
    secrets: await hostSecrets(process.env),
    log: (line) => writeLog(`${line}\n`),
  });
  const stopped = signalled();
  try {
    const url = await opened.listen({ host, port });
    process.stdout.write(`${JSON.stringify({ url })}\n`);
    return await stopped;
  } finally {
    await opened.close();
  }
}

/** Prints the descriptions as JSON: one object, or a list of several. */
export async function orbitDescribe(file: string): Promise<number> {
  const described = (await descriptionsOf(file)).map(toWire);
  const shown = described.length === 1 ? described[0] : described;
  process.stdout.write(`${JSON.stringify(shown, null, 2)}\n`);
  return 0;
}

/** `whsec_...` for all satellites of the file, `name=whsec_...` for one; blanks or commas between. */
async function hostSecrets(env: NodeJS.ProcessEnv): Promise<readonly HostSecret[]> {
  const file = env["PERIGEE_ORBIT_SECRETS_FILE"];
  const text = env["PERIGEE_ORBIT_SECRETS"] ?? (file === undefined ? "" : await readFile(file, "utf8"));
  const secrets = text.split(/[\s,]+/).filter((one) => one !== "");
  if (secrets.length === 0)
    throw new PerigeeError(
      "usage",
      "PERIGEE_ORBIT_SECRETS must hold the secrets of the registrations (perigee satellites register prints each once)",
    );
  return secrets.map((one) => {
    const [, satellite, secret = one] = /^([a-z0-9-]+)=(whsec_.*)$/.exec(one) ?? [];
    return { secret, satellite };
  });
}
