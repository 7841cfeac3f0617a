/**
 * The options of a worker, with their defaults and checks.
 */
import { hostname } from "node:os";
import { isLoopbackHost } from "../egress/address.ts";
import type { FleetTerms } from "../engine/config/config_options.ts";
import { PerigeeError } from "../errors.ts";
import { givenKey } from "../satellites/secrets/secret_key.ts";
import { checkAddress } from "../service/http/server.ts";
import type { PerigeeServiceOptions } from "../service/service_options.ts";
import type { WorkerRole } from "./worker_rows.ts";

/** The options of the services that it opens, and of the fleet. `dataDir` holds only what is useful to this machine and may be lost. */
export interface FleetWorkerOptions extends Omit<PerigeeServiceOptions, "fleet"> {
  readonly fleet: FleetTerms & {
    /** Where callers reach it. Default 127.0.0.1 and 8080. */
    readonly host?: string | undefined;
    readonly port?: number | undefined;
  };
}

/** The options of the fleet with their defaults. */
export interface FleetPlace {
  readonly store: string;
  readonly objects: string;
  readonly role: WorkerRole;
  readonly name: string;
  readonly host: string;
  readonly port: number;
  readonly privateHost: string;
  readonly privatePort: number;
  /** The id of the key for secrets. */
  readonly secretsKeyId: string;
}

const ROLES: readonly WorkerRole[] = ["all", "api", "worker"];
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$/;
/** A server listens on these, but another worker cannot call them. */
const EVERY_ADDRESS = ["0.0.0.0", "::", ""];

/** Throws `usage` or `invalid_config` for what cannot work. */
export async function checkedPlace(options: FleetWorkerOptions): Promise<FleetPlace> {
  const { fleet, env = process.env, isBehindProxy, publicUrl } = options;
  const { role = "all", name = hostname(), privateHost = "127.0.0.1", host = "127.0.0.1" } = fleet;
  checkStore(fleet.store);
  if (!ROLES.includes(role))
    throw new PerigeeError(
      "usage",
      `the role of a worker is ${ROLES.join(", ")}, got ${JSON.stringify(role)}`,
    );
  if (!NAME.test(name))
    throw new PerigeeError(
      "usage",
      `the name of a worker must match ${NAME.source}, got ${JSON.stringify(name)}`,
    );
  if (EVERY_ADDRESS.includes(privateHost))
    throw new PerigeeError(
      "usage",
      `the private host must be an address that other workers can call, got ${JSON.stringify(privateHost)}`,
    );
  if (role !== "worker") checkAddress(host, isBehindProxy === true);
  if (role === "worker" && publicUrl === undefined)
    throw new PerigeeError(
      "usage",
      "a worker without a public port needs the public address of the service, which links begin with: set publicUrl (perigee serve: --public-url)",
    );
  const secretsKey = await givenKey(env, "PERIGEE_SECRETS_KEY");
  if (secretsKey === undefined)
    throw new PerigeeError(
      "invalid_config",
      "PERIGEE_SECRETS_KEY is not set: the workers of a fleet share one key for secrets of satellites; set the same one for all, such as the output of `openssl rand -base64 32`",
    );
  return {
    ...{ role, name, host, privateHost, store: fleet.store, objects: fleet.objects ?? fleet.store },
    port: fleet.port ?? 8080,
    privatePort: fleet.privatePort ?? 0,
    secretsKeyId: secretsKey.id,
  };
}

/** Throws `usage` for an address of another kind. The message names only its scheme: the rest may hold a password. */
export function checkStore(store: string): void {
  if (/^postgres(ql)?:\/\//.test(store)) return;
  throw new PerigeeError(
    "usage",
    `the store of a fleet must be postgres://user@host:port/database, got ${JSON.stringify(store.split(":", 1)[0])}:...`,
  );
}

/** A notice for an address that only this machine can reach; undefined for others. */
export function loneNotice({ privateHost, role }: FleetPlace): string | undefined {
  if (role === "api" || !isLoopbackHost(privateHost)) return undefined; // no worker calls one without partitions
  return `other machines cannot reach this worker at ${privateHost}: set --private-host to its address in the private network`;
}
