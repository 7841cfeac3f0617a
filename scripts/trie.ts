/**
 * Builds the double-array trie of an encoding's tokens (format: `src/tokens/ranks.ts`).
 *
 * Nodes with several children are placed first, in one block of 256 cells after another; nodes with one child then fill
 * the holes, so hardly a cell stays empty (421,660 nodes of o200k_base take 438,016 cells).
 */
import { TRIE_ROOT } from "../src/tokens/ranks.ts";

/** A hole that was of no use this often is left empty. */
const PASSES_MAX = 8;
const USED = 1 << 8;
const IS_TOKEN = 1 << 9;
const BASE_SHIFT = 10;

/** Nodes in the order in which sorted tokens reach them: parents come before their children. */
interface Nodes {
  readonly parents: number[];
  readonly bytes: number[];
  /** The token that ends in the node, or -1. */
  readonly tokens: number[];
  readonly children: number[][];
}

/** The cells of the trie, and the token of each cell that ends one. */
export function buildTrie(tokens: readonly string[]): { trieCells: Int32Array; trieTokens: Int32Array } {
  const nodes = listNodes(tokens);
  const bases = placeNodes(nodes);
  const cellOf = (node: number): number =>
    node === 0 ? TRIE_ROOT : (bases[nodes.parents[node] as number] as number) ^ (nodes.bytes[node] as number);
  const last = bases.reduce((most, base) => Math.max(most, base), 0) | 255;
  const trieCells = new Int32Array(last + 1);
  const trieTokens = new Int32Array(last + 1);
  for (let node = 0; node < bases.length; node++) {
    const token = nodes.tokens[node] as number;
    const base = (bases[node] as number) << BASE_SHIFT;
    const mark = node === 0 ? 0 : USED | (nodes.bytes[node] as number);
    trieCells[cellOf(node)] = base | mark | (token < 0 ? 0 : IS_TOKEN);
    trieTokens[cellOf(node)] = Math.max(token, 0);
  }
  for (const [token, text] of tokens.entries()) {
    if (find(text, trieCells, trieTokens) !== token) throw new Error(`the trie does not hold token ${token}`);
  }
  return { trieCells, trieTokens };
}

function find(text: string, trieCells: Int32Array, trieTokens: Int32Array): number | undefined {
  let slot = TRIE_ROOT;
  for (let index = 0; index < text.length; index++) {
    const byte = text.charCodeAt(index);
    slot = ((trieCells[slot] as number) >>> BASE_SHIFT) ^ byte;
    if (((trieCells[slot] as number) & (USED | 0xff)) !== (USED | byte)) return undefined;
  }
  return ((trieCells[slot] as number) & IS_TOKEN) === 0 ? undefined : trieTokens[slot];
}

function listNodes(tokens: readonly string[]): Nodes {
  const nodes: Nodes = { parents: [-1], bytes: [0], tokens: [-1], children: [[]] };
  const order = Array.from(tokens.keys()).sort((a, b) => compare(tokens[a] as string, tokens[b] as string));
  const path: number[] = [0];
  let previous = "";
  for (const token of order) {
    const text = tokens[token] as string;
    let depth = 0;
    while (depth < previous.length && previous.charCodeAt(depth) === text.charCodeAt(depth)) depth++;
    for (; depth < text.length; depth++) {
      const parent = path[depth] as number;
      const node = nodes.parents.length;
      nodes.parents.push(parent);
      nodes.bytes.push(text.charCodeAt(depth));
      nodes.tokens.push(-1);
      nodes.children.push([]);
      nodes.children[parent]?.push(node);
      path[depth + 1] = node;
    }
    nodes.tokens[path[text.length] as number] = token;
    previous = text;
  }
  return nodes;
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** The base of every node; 0 for nodes without children. */
function placeNodes(nodes: Nodes): Int32Array {
  const bases = new Int32Array(nodes.parents.length);
  const cells = new Cells(nodes.parents.length * 2 + 4096);
  // Most children first; within one number of children, in the order of the nodes.
  const byChildren: number[][] = Array.from({ length: 257 }, () => []);
  nodes.children.forEach((children, node) => {
    byChildren[256 - children.length]?.push(node);
  });
  byChildren.pop();
  for (const node of byChildren.flat()) {
    const labels = (nodes.children[node] ?? []).map((child) => nodes.bytes[child] as number);
    const base = labels.length === 1 ? cells.findHole(labels[0] as number) : cells.findRoom(labels);
    bases[node] = base;
    cells.take(base, labels);
  }
  return bases;
}

/** Which cells and which bases are in use. Two nodes may not share a base: a cell tells its byte, not its parent. */
class Cells {
  readonly #isTaken: Uint8Array;
  readonly #isBase: Uint8Array;
  /** The block of 256 cells in which nodes with several children are tried: its first cell. */
  #block = 256;
  /** A free cell at or after each cell, as far as known: followed until one is free, shortened on the way. */
  readonly #nextFree: Int32Array;
  /** Where the search for a hole begins, and how often the hole there was of no use. */
  #hole = 256;
  #passes = 0;

  constructor(size: number) {
    this.#isTaken = new Uint8Array(size);
    this.#isBase = new Uint8Array(size);
    this.#isTaken.fill(1, 0, 256);
    this.#isTaken[TRIE_ROOT] = 1;
    this.#nextFree = Int32Array.from({ length: size }, (_, cell) => cell + 1);
  }

  take(base: number, labels: readonly number[]): void {
    this.#isBase[base] = 1;
    for (const label of labels) this.#isTaken[base ^ label] = 1;
  }

  /** A base for a node with one child. */
  findHole(label: number): number {
    this.#hole = this.#freeFrom(this.#hole);
    let cell = this.#hole;
    while (this.#isBase[cell ^ label] === 1) cell = this.#freeFrom(cell + 1);
    if (cell !== this.#hole && ++this.#passes > PASSES_MAX) {
      this.#hole++;
      this.#passes = 0;
    }
    return cell ^ label;
  }

  #freeFrom(from: number): number {
    let cell = from;
    while (this.#isTaken[cell] === 1) {
      const next = this.#nextFree[cell] as number;
      this.#nextFree[cell] = this.#isTaken[next] === 1 ? (this.#nextFree[next] as number) : next;
      cell = next;
    }
    return cell;
  }

  /** A base for a node with several children. */
  findRoom(labels: readonly number[]): number {
    const base = this.#findBase(this.#block, labels);
    if (base >= 0) return base;
    this.#block += 256;
    return this.#findBase(this.#block, labels);
  }

  #findBase(block: number, labels: readonly number[]): number {
    const isTaken = this.#isTaken;
    for (let base = block; base < block + 256; base++) {
      if (this.#isBase[base] === 1) continue;
      let fits = 0;
      while (fits < labels.length && isTaken[base ^ (labels[fits] as number)] === 0) fits++;
      if (fits === labels.length) return base;
    }
    return -1;
  }
}
