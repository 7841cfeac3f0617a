/**
 * `defineCluster`: a declaration in TypeScript, the same object that a YAML file is read to.
 */
import { PerigeeError } from "../../errors.ts";
import type { Json, JsonObject } from "../../work/json.ts";
import { readShape } from "./check.ts";

/** A satellite of a cluster. */
export interface ClusterMember {
  /** What others refer to it by: letters, digits, `_` and `-`. */
  readonly identifier: string;
  /** `satellite/<namespace>/<name>` */
  readonly uses: string;
  /** Display name; default: the identifier. */
  readonly name?: string;
  /** An object, or one reference to an object. */
  readonly input?: JsonObject | string;
  readonly config?: JsonObject | string;
  /** A duration such as `30m`, within that of the cluster. */
  readonly sla?: string;
  /** One execution for each element of a list, or of the list of a reference. */
  readonly each?: readonly Json[] | string;
  /** Executions of `each` at once, 1 to 256. Default 8. */
  readonly concurrency?: number;
  /** By how those that it waits for have ended. Default `success`. */
  readonly if?: "success" | "on_failure" | "always";
  /** Identifiers that it waits for besides those that it refers to. */
  readonly needs?: readonly string[];
}

/** A declaration, in the words of its YAML. */
export interface ClusterDeclaration {
  readonly name?: string;
  readonly description?: string;
  /** A duration such as `24h`, at most 30 days. Default `24h`. */
  readonly sla?: string;
  readonly cluster: { readonly satellites: readonly ClusterMember[] };
}

/**
 * The declaration as JSON, for `Clusters.submit` and `POST /v1/clusters/`. Throws `invalid_request` (`details.issues`) for
 * shapes, references and circles that are wrong; whether its satellites exist, and take their input, is
 * checked when it is submitted.
 */
export function defineCluster(declaration: ClusterDeclaration): JsonObject {
  const { issues, value } = readShape(declaration);
  const [first] = issues.list;
  if (first !== undefined)
    throw new PerigeeError("invalid_request", `${first.path}: ${first.message}`, {
      details: { issues: issues.list },
    });
  return value as JsonObject; // an object, as it has no issues
}

/** A reference in braces, such as `reference("parse.output.text")`: in a template literal they would be TypeScript's. */
export function reference(path: string): string {
  return `\${{ ${path} }}`;
}
