/**
 * A declaration in YAML: loaded when the first one is read.
 *
 * Of YAML 1.2 only the core schema: no aliases, merge keys, custom tags, duplicate keys or second documents, so
 * that what is read is what is seen. The depth is checked while tokens are read, before anything recursive.
 *
 * Limits: those of `declaration.ts`, and 100,000 tokens.
 */
import {
  Composer,
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  Parser,
  type Scalar,
  type YAMLMap,
} from "yaml";
import type { Json } from "../../work/json.ts";
import { DECLARATION_BYTES_MAX, DEPTH_MAX, type ReadDeclaration, tooDeep, tooLong } from "./declaration.ts";
import { Issues, type Path, type TextPosition } from "./issues.ts";

const TOKENS_MAX = 100_000;
/** The parser's stack holds the document and the node at work besides. */
const STACK_MAX = DEPTH_MAX + 4;

const WHOLE = /^[-+]?(\d+|0x[\da-f]+|0o[0-7]+)$/i;

type Token = Parameters<Composer["next"]>[0];

/** Never throws, for any text. */
export function readDeclaration(text: string): ReadDeclaration {
  const lines = new LineCounter();
  const placeAt = (offset: number): TextPosition => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
  };
  let root: unknown;
  const issues = new Issues((path, isKey) => placeAt(offsetOf(root, path, isKey)));
  const bytes = Buffer.byteLength(text);
  if (bytes > DECLARATION_BYTES_MAX) {
    issues.addAt({ line: 1, column: 1 }, tooLong(bytes));
    return { value: undefined, issues };
  }
  const tokens = tokensOf(text, lines, (offset, message) => issues.addAt(placeAt(offset), message));
  if (tokens === undefined) return { value: undefined, issues };
  const document = compose(tokens, text.length, (offset, message) => issues.addAt(placeAt(offset), message));
  root = document?.contents;
  const value = issues.isEmpty ? new Conversion(issues, placeAt).value(root, []) : undefined;
  return { value: issues.isEmpty ? (value ?? null) : undefined, issues };
}

/** Undefined when the text is refused before it is composed. */
function tokensOf(
  text: string,
  lines: LineCounter,
  refuse: (offset: number, message: string) => void,
): Token[] | undefined {
  const parser = new Parser(lines.addNewLine);
  lines.addNewLine(0);
  const tokens: Token[] = [];
  let count = 0;
  for (const lexeme of new Lexer().lex(text)) {
    count += 1;
    for (const token of parser.next(lexeme)) tokens.push(token);
    if (parser.stack.length <= STACK_MAX && count <= TOKENS_MAX) continue;
    refuse(parser.offset, count > TOKENS_MAX ? `has more than ${TOKENS_MAX} tokens` : tooDeep());
    return undefined;
  }
  for (const token of parser.end()) tokens.push(token);
  return tokens;
}

/** The first document; errors and warnings of the parser are issues, and so is a second document. */
function compose(
  tokens: readonly Token[],
  length: number,
  refuse: (offset: number, message: string) => void,
): Document.Parsed | undefined {
  const composer = new Composer({
    version: "1.2",
    schema: "core",
    merge: false,
    resolveKnownTags: false,
    uniqueKeys: false, // its check is quadratic; Conversion checks instead
    stringKeys: true,
    strict: true,
    prettyErrors: false,
  });
  let first: Document.Parsed | undefined;
  for (const document of composer.compose(tokens, true, length)) {
    for (const fault of [...document.errors, ...document.warnings]) refuse(fault.pos[0], fault.message);
    if (first !== undefined) {
      refuse(document.range[0], "a declaration is one document");
      break;
    }
    first = document as Document.Parsed;
  }
  return first;
}

/** From nodes to JSON, of depth that was checked. */
class Conversion {
  readonly #issues: Issues;
  readonly #placeAt: (offset: number) => TextPosition;

  constructor(issues: Issues, placeAt: (offset: number) => TextPosition) {
    this.#issues = issues;
    this.#placeAt = placeAt;
  }

  value(node: unknown, path: Path): Json {
    if (node === null || node === undefined) return null;
    if (isAlias(node)) return this.#refuse(path, "aliases are not taken: write the value again");
    if (isScalar(node)) return this.#scalar(node, path);
    if (path.length >= DEPTH_MAX) return this.#refuse(path, tooDeep());
    if (isSeq(node)) return node.items.map((item, index) => this.value(item, [...path, index]));
    if (isMap(node)) return this.#map(node, path);
    return this.#refuse(path, "is not a value of JSON");
  }

  #scalar({ value, source }: Scalar, path: Path): Json {
    if (value === null || typeof value === "string" || typeof value === "boolean") return value;
    if (typeof value !== "number" || !Number.isFinite(value))
      return this.#refuse(path, "is not a value of JSON: put it in quotes");
    if (!Number.isSafeInteger(value) && WHOLE.test(source ?? ""))
      return this.#refuse(path, "is a larger whole number than JSON keeps exactly: put it in quotes");
    return value;
  }

  #map(map: YAMLMap, path: Path): Json {
    const names = new Set<string>();
    const entries = map.items.map(({ key, value }): readonly [string, Json] => {
      const name = isScalar(key) ? String(key.value) : undefined;
      if (name === undefined) return ["", this.#refuse(path, "a key must be text")];
      const at = [...path, name];
      if (name === "<<") this.#issues.add(at, "merge keys are not taken: write the keys out", true);
      if (names.has(name)) {
        const place = this.#placeAt((key as Scalar).range?.[0] ?? 0); // a scalar, as it has a name
        this.#issues.addAt(place, `occurs twice: ${JSON.stringify(name.slice(0, 64))}`, at);
      }
      names.add(name);
      return [name, this.value(value, at)];
    });
    return Object.fromEntries(entries); // defines own members, also of the name __proto__
  }

  #refuse(path: Path, message: string): null {
    this.#issues.add(path, message);
    return null;
  }
}

/** Of the value, or of the key; of what surrounds it where it is missing. */
function offsetOf(root: unknown, path: Path, isKey: boolean): number {
  let node = root;
  let offset = startOf(root) ?? 0;
  for (const [index, step] of path.entries()) {
    if (isMap(node)) {
      const pair = node.items.find(({ key }) => isScalar(key) && String(key.value) === step);
      if (pair === undefined) return offset;
      const isLastKey = isKey && index === path.length - 1;
      offset = (isLastKey ? undefined : startOf(pair.value)) ?? startOf(pair.key) ?? offset;
      node = pair.value;
    } else if (isSeq(node) && typeof step === "number") {
      node = node.items[step];
      offset = startOf(node) ?? offset;
    } else return offset;
  }
  return offset;
}

/** Undefined for a value that is not written at all. */
function startOf(node: unknown): number | undefined {
  const range = (node as { readonly range?: readonly number[] } | null | undefined)?.range; // every node of yaml has it
  if (range === undefined || range === null) return undefined;
  return range[0] === range[1] ? undefined : range[0];
}
