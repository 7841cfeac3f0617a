/**
 * Whether what somebody registers or configures can be taken. Pure but for the schemas of satellites.
 */
import { isLoopbackHost } from "../../egress/address.ts";
import type { Egress } from "../../egress/egress.ts";
import { PerigeeError } from "../../errors.ts";
import { isList, isObject, type Json, type JsonObject } from "../../work/json.ts";
import type { Registration } from "../sdk/catalogue.ts";
import { isDeep, issuesOf, propertiesOf } from "../sdk/json_schema.ts";
import type { Satellite } from "../sdk/satellite.ts";
import { fieldFault } from "./catalogue_refusals.ts";

const CONFIG_BYTES_MAX = 64 * 1024;
const SECRET = /secret:\/\//;

/** Throws `invalid_request` and `blocked_destination`, with `details.param`. */
export function checkRegistration({ kind, url, described }: Registration, egress: Egress): void {
  const checked = egress.check(url);
  if (!checked.ok)
    throw new PerigeeError("blocked_destination", checked.message, { details: { param: "url" } });
  if (checked.origin.startsWith("http:") && !isLoopbackHost(checked.host))
    throw fieldFault("url", "beyond this machine it must be https: what is sent may hold secrets");
  const { example, inputSchema, configSchema } = described;
  if (example === undefined) {
    if (kind === "community")
      throw fieldFault(
        "satellite.example",
        "is needed: verification runs it before others may use the satellite",
      );
    return;
  }
  for (const [name, value, schema] of [
    ["input", example.input, inputSchema],
    ["config", example.config, configSchema],
  ] as const) {
    const [issue] = issuesOf(value, schema);
    if (issue !== undefined)
      throw fieldFault(["satellite.example", name, ...issue.path].join("."), issue.message);
  }
}

/**
 * Settings that are to be fixed, beside those that are fixed already. The caller sets what is missing, and texts
 * with references to secrets are checked when they are filled in. Throws `invalid_request`, `too_large`.
 */
export async function checkConfiguration(
  config: JsonObject,
  base: {
    readonly satellite: Satellite;
    readonly configSchema: JsonObject;
    readonly fixedConfig: JsonObject;
  },
): Promise<void> {
  if (isDeep(config)) throw fieldFault("config", "is nested too deep");
  if (Buffer.byteLength(JSON.stringify(config)) > CONFIG_BYTES_MAX)
    throw new PerigeeError("too_large", `fixed settings have at most ${CONFIG_BYTES_MAX} bytes`);
  const { properties, isOpen } = propertiesOf(base.configSchema);
  for (const name of Object.keys(config)) {
    if (!isOpen && !properties.has(name))
      throw fieldFault(`config.${name}`, "the satellite has no such setting");
    if (Object.hasOwn(base.fixedConfig, name))
      throw fieldFault(`config.${name}`, "is fixed by its base already");
  }
  const result = await base.satellite.config["~standard"].validate({ ...config, ...base.fixedConfig });
  for (const { path = [], message } of result.issues ?? []) {
    const names = path.map((part) => (typeof part === "object" ? part.key : part));
    const [first] = names;
    if (typeof first !== "string" || !Object.hasOwn(config, first)) continue;
    if (!SECRET.test(JSON.stringify(valueAt(config, names)) ?? ""))
      throw fieldFault(["config", ...names.map(String)].join("."), message);
  }
}

function valueAt(value: Json, path: readonly PropertyKey[]): Json | undefined {
  let at: Json | undefined = value;
  for (const part of path) {
    if (isList(at)) at = at[Number(part)];
    else at = isObject(at) && Object.hasOwn(at, part) ? at[String(part)] : undefined;
  }
  return at;
}
