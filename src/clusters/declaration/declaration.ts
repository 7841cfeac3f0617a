/**
 * Declarations of clusters as users write them: an object here, YAML (or JSON, which is YAML) in `yaml_declaration.ts`; as a JSON value
 * whose parts know their line and column.
 *
 * Limits: 256 KiB, 64 levels, 100 issues.
 */
import type { Json } from "../../work/json.ts";
import { Issues } from "./issues.ts";

export const DECLARATION_BYTES_MAX: number = 256 * 1024;
export const DEPTH_MAX = 64;

/** `value` is undefined when there are issues. */
export interface ReadDeclaration {
  readonly value: Json | undefined;
  readonly issues: Issues;
}

/** An object of a program's, with the same bounds; its issues have no lines. */
export function readDeclarationObject(object: unknown): ReadDeclaration {
  const issues = new Issues(undefined);
  const text = textOf(object);
  if (text === undefined) issues.add([], "must be an object of JSON");
  else if (Buffer.byteLength(text) > DECLARATION_BYTES_MAX) issues.add([], tooLong(Buffer.byteLength(text)));
  else if (depthOf(text) > DEPTH_MAX) issues.add([], tooDeep());
  return {
    value: issues.isEmpty && text !== undefined ? (JSON.parse(text) as Json) : undefined,
    issues,
  };
}

export function tooLong(bytes: number): string {
  return `a declaration has at most ${DECLARATION_BYTES_MAX} bytes, got ${bytes}`;
}

export function tooDeep(): string {
  return `is nested deeper than ${DEPTH_MAX} levels`;
}

/** Undefined for what JSON cannot say: circles, big integers, too much depth, functions. */
function textOf(object: unknown): string | undefined {
  try {
    return JSON.stringify(object);
  } catch {
    return undefined;
  }
}

/** Of JSON: brackets outside texts. */
function depthOf(json: string): number {
  let depth = 0;
  let deepest = 0;
  for (const [token] of json.matchAll(/"(?:[^"\\]|\\.)*"|[[{\]}]/g)) {
    if (token === "[" || token === "{") deepest = Math.max(deepest, ++depth);
    else if (token === "]" || token === "}") depth -= 1;
  }
  return deepest;
}
