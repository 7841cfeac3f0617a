/**
 * The shape of a declaration (interface 2.9), and what perigee adds to it.
 *
 *   sla, cluster.satellites[]: name, uses, identifier, config, input      as the interface has them
 *   name, description; each, concurrency, if, needs, sla of a member      added
 *
 * Limits: 1,000 members, texts of 256 characters, 256 executions of one member at once.
 */

import { nearest } from "../../nearest.ts";
import { parseReference, type SatelliteReference } from "../../satellites/sdk/reference.ts";
import { isList, isObject, type Json, type JsonObject } from "../../work/json.ts";
import { parseDurationMs, SLA_MINUTES_MAX } from "../../work/sla.ts";
import type { Issues, Path } from "./issues.ts";

const MEMBERS_MAX = 1_000;
const CONCURRENCY_MAX = 256;
const CONCURRENCY = 8;
const TEXT_CHARS_MAX = 256;
/** Of a declaration without one. */
const SLA = "24h";

/** When a member runs, by how those that it waits for have ended. */
export type Condition = "success" | "failure" | "always";

/** A member with defaults in, as it was declared: references are not filled in. */
export interface DeclaredMember {
  /** Its place in the declaration. */
  readonly index: number;
  readonly identifier: string;
  readonly name: string;
  readonly uses: string;
  readonly satellite: SatelliteReference;
  /** An object, or a text that is one reference. */
  readonly input: Json;
  readonly config: Json;
  readonly sla: string | undefined;
  /** A list, or a text that is one reference. */
  readonly each: Json | undefined;
  readonly concurrency: number;
  readonly condition: Condition;
  /** As written. */
  readonly needs: readonly string[];
}

/** Members in the order of the text. */
export interface Declaration {
  readonly name: string | undefined;
  readonly sla: string;
  readonly members: readonly DeclaredMember[];
}

/** The places of members. */
export const MEMBERS: Path = ["cluster", "satellites"];

const TOP_KEYS = ["name", "description", "sla", "cluster"];
const MEMBER_KEYS = [
  "name",
  "uses",
  "identifier",
  "input",
  "config",
  "sla",
  "each",
  "concurrency",
  "if",
  "needs",
];
const CONDITIONS: Readonly<Record<string, Condition>> = {
  always: "always",
  failure: "failure",
  on_failure: "failure",
  success: "success",
  on_success: "success",
};
const IDENTIFIER = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,62}$/;
const RESERVED = ["input", "secrets", "each", "cluster"];
const ONE_REFERENCE = /^\$\{\{[^}]*\}\}$/;

/** What can be read of a declaration; whole only when `issues` is empty afterwards. */
export function shapeOf(value: Json, issues: Issues): Declaration {
  const top = new Reader(value, [], issues);
  top.refuseUnknown(TOP_KEYS);
  const name = top.text("name");
  top.text("description", 4_096);
  const sla = top.sla() ?? SLA;
  const cluster = top.below("cluster");
  cluster?.refuseUnknown(["satellites"]);
  const list = cluster?.get("satellites");
  const members = cluster === undefined ? [] : membersOf(list, issues);
  refuseTwice(members, issues);
  return { name, sla, members };
}

function membersOf(list: Json | undefined, issues: Issues): DeclaredMember[] {
  if (!isList(list) || list.length === 0) {
    issues.add(MEMBERS, list === undefined ? "is missing" : "must be a list of at least one satellite", true);
    return [];
  }
  if (list.length > MEMBERS_MAX) {
    issues.add(MEMBERS, `has at most ${MEMBERS_MAX} satellites, got ${list.length}`, true);
    return [];
  }
  return list.map((item, index) => memberOf(item, index, issues)).filter((member) => member !== undefined);
}

function memberOf(item: Json, index: number, issues: Issues): DeclaredMember | undefined {
  const path = [...MEMBERS, index];
  if (!isObject(item)) {
    issues.add(path, "must be an object with uses and identifier");
    return undefined;
  }
  const reader = new Reader(item, path, issues);
  reader.refuseUnknown(MEMBER_KEYS);
  const identifier = reader.identifier();
  const uses = reader.required("uses") ?? "";
  const satellite = parseReference(uses);
  if (satellite === undefined && uses !== "")
    issues.add(
      [...path, "uses"],
      `must be satellite/<namespace>/<name>, got ${JSON.stringify(uses.slice(0, 80))}`,
    );
  return {
    index,
    identifier: identifier ?? "",
    name: reader.text("name") ?? identifier ?? "",
    uses,
    satellite: satellite ?? { namespace: "", name: "" },
    input: reader.object("input"),
    config: reader.object("config"),
    sla: reader.sla(),
    each: reader.each(),
    concurrency: reader.concurrency(),
    condition: reader.condition(),
    needs: reader.needs(),
  };
}

function refuseTwice(members: readonly DeclaredMember[], issues: Issues): void {
  const seen = new Set<string>();
  for (const { identifier, index } of members) {
    if (seen.has(identifier) && identifier !== "")
      issues.add([...MEMBERS, index, "identifier"], `another satellite has the identifier ${identifier}`);
    seen.add(identifier);
  }
}

/** Reads the keys of one object, and notes what is wrong with them. */
class Reader {
  readonly #value: JsonObject;
  readonly #path: Path;
  readonly #issues: Issues;

  constructor(value: Json, path: Path, issues: Issues) {
    if (!isObject(value)) issues.add(path, "must be an object");
    this.#value = isObject(value) ? value : {};
    this.#path = path;
    this.#issues = issues;
  }

  get(key: string): Json | undefined {
    return Object.hasOwn(this.#value, key) ? this.#value[key] : undefined;
  }

  refuseUnknown(known: readonly string[]): void {
    for (const key of Object.keys(this.#value)) {
      if (known.includes(key)) continue;
      const near = nearest(key, known);
      const hint = near === undefined ? `it may be ${known.join(", ")}` : `did you mean ${near}?`;
      this.#refuse(key, `unknown key ${JSON.stringify(key.slice(0, 64))}: ${hint}`, true);
    }
  }

  below(key: string): Reader | undefined {
    const value = this.get(key);
    if (value === undefined) {
      this.#refuse(key, "is missing", true);
      return undefined;
    }
    return new Reader(value, [...this.#path, key], this.#issues);
  }

  /** Undefined when it is absent or no text. */
  text(key: string, charsMax: number = TEXT_CHARS_MAX): string | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    if (typeof value === "string" && value.length <= charsMax) return value;
    this.#refuse(key, `must be text of at most ${charsMax} characters`);
    return undefined;
  }

  required(key: string): string | undefined {
    if (this.get(key) === undefined) this.#refuse(key, `${key} is missing`, true);
    return this.text(key);
  }

  identifier(): string | undefined {
    const identifier = this.required("identifier");
    if (identifier === undefined) return undefined;
    if (!IDENTIFIER.test(identifier))
      this.#refuse("identifier", 'must be letters, digits, "_" and "-", at most 63, not beginning with "-"');
    else if (RESERVED.includes(identifier))
      this.#refuse("identifier", `${identifier} has a special meaning in references`);
    return identifier; // so that references to it are not reported as missing
  }

  sla(): string | undefined {
    const value = this.get("sla");
    if (value === undefined) return undefined;
    const ms = typeof value === "string" ? parseDurationMs(value) : undefined;
    if (typeof value === "string" && ms !== undefined && ms > 0 && ms <= SLA_MINUTES_MAX * 60_000)
      return value;
    this.#refuse("sla", "must be a duration from 1s to 30d, such as 90s, 30m, 24h or 7d");
    return undefined;
  }

  /** Absent: an empty one. */
  object(key: string): Json {
    const value = this.get(key) ?? {};
    if (isObject(value) || isOneReference(value)) return value;
    this.#refuse(key, "must be an object, or one reference to an object");
    return {};
  }

  each(): Json | undefined {
    const value = this.get("each");
    if (value === undefined || isList(value) || isOneReference(value)) return value;
    this.#refuse("each", "must be a list, or one reference to a list");
    return undefined;
  }

  concurrency(): number {
    const value = this.get("concurrency");
    if (value === undefined) return CONCURRENCY;
    if (this.get("each") === undefined) this.#refuse("concurrency", "needs each", true);
    if (Number.isInteger(value) && Number(value) >= 1 && Number(value) <= CONCURRENCY_MAX)
      return Number(value);
    this.#refuse("concurrency", `must be a whole number from 1 to ${CONCURRENCY_MAX}`);
    return CONCURRENCY;
  }

  condition(): Condition {
    const value = this.get("if");
    if (value === undefined) return "success";
    const condition =
      typeof value === "string" && Object.hasOwn(CONDITIONS, value) ? CONDITIONS[value] : undefined;
    if (condition === undefined) this.#refuse("if", "must be success, on_failure or always");
    return condition ?? "success";
  }

  needs(): readonly string[] {
    const value = this.get("needs");
    if (value === undefined) return [];
    const list: readonly Json[] = isList(value) ? value : [value];
    const texts = list.filter((item) => typeof item === "string");
    if (texts.length < list.length) this.#refuse("needs", "must be a list of identifiers");
    return texts;
  }

  #refuse(key: string, message: string, isKey = false): void {
    this.#issues.add([...this.#path, key], message, isKey);
  }
}

function isOneReference(value: Json): value is string {
  return typeof value === "string" && ONE_REFERENCE.test(value);
}
