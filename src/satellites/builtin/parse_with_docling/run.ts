/**
 * One attempt of `parse-with-docling`: documents to Markdown, text or JSON.
 *
 *   embedded:  read -> kind found by its bytes -> parsed in another process -> returned, or kept as a file if it is long
 *   docling:   read -> converted by the server of the config -> kept -> given back
 *
 * The output says which of both it was. Repeats find what was kept.
 *
 * Limits: 200 documents of 64 MiB in one execution, four at a time; 512 KiB of all in the output itself.
 */
import type { Clock } from "../../../clock.ts";
import { systemClock } from "../../../clock.ts";
import type { Json, JsonObject } from "../../../work/json.ts";
import type { SatelliteCall } from "../../sdk/satellite.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";
import { findKept, keepFile, referenceOf } from "../files/file_reference.ts";
import { inOrder } from "../files/in_order.ts";
import type { ParseConfig } from "./config.ts";
import { Docling, type DoclingSource } from "./docling.ts";
import { documentKind } from "./document_kind.ts";
import { type DocumentSource, fetchedDocument, nameOfUrl, projectDocument } from "./document_source.ts";
import type { ParseInput } from "./input.ts";
import type { DocumentFormat, ParseResult } from "./parsed_document.ts";
import { ParserPool } from "./parser_pool.ts";

/** What the operator says of it. */
export interface ParseOptions {
  /** Default: the system's. */
  readonly clock?: Clock;
  /** Of the embedded engine, for one document. Default 60 s. */
  readonly timeoutMs?: number;
  /** Of the embedded engine's processes, each. Default 768. */
  readonly memoryMb?: number;
  /** Documents that the embedded engine parses at once. Default 2. */
  readonly processes?: number;
}

const CONCURRENCY = 4;

/** As JSON; what does not fit after the others is a file. */
const INLINE_BYTES_MAX = 512 * 1024;

const TYPES: Readonly<Record<DocumentFormat, string>> = {
  markdown: "text/markdown; charset=utf-8",
  text: "text/plain; charset=utf-8",
  json: "application/json",
};

const ENDINGS: Readonly<Record<DocumentFormat, string>> = { markdown: "md", text: "txt", json: "json" };

type Call = SatelliteCall<ParseInput, ParseConfig>;

/** A document as the output has it. */
interface Parsed {
  readonly name: string;
  readonly engine: "embedded" | "docling";
  readonly package: string | null;
  readonly pages: number | null;
  readonly isPartial: boolean;
  readonly pagesWithoutText: readonly number[];
  readonly text: string;
}

/** The processes of the embedded engine are shared by all calls. */
export function runWith(options: ParseOptions): (call: Call) => Promise<JsonObject> {
  const parser = new ParserPool({ clock: systemClock, ...options });
  return (call) => new Parsing(call, parser).run();
}

class Parsing {
  readonly #call: Call;
  readonly #parser: ParserPool;
  #inlineLeft = INLINE_BYTES_MAX;
  #done = 0;

  constructor(call: Call, parser: ParserPool) {
    this.#call = call;
    this.#parser = parser;
  }

  async run(): Promise<JsonObject> {
    const { file, files, url } = this.#call.input;
    if (files !== undefined) return this.#all(files.map(({ file_id }) => file_id));
    const key = "document";
    if (file !== undefined) return this.#ofProject(key, file.file_id);
    return this.#ofUrl(key, url ?? "");
  }

  /** One that will never be parsed does not keep the others from being so. */
  async #all(ids: readonly string[]): Promise<JsonObject> {
    const documents: Json[] = [];
    let failed = 0;
    const one = async ([index, id]: readonly [number, string]): Promise<JsonObject> => {
      try {
        return await this.#ofProject(`document ${index}`, id);
      } catch (error) {
        if (!(error instanceof SatelliteError) || error.failure !== "permanent") throw error;
        failed += 1;
        return { name: id, error: { code: error.code, message: error.message } };
      } finally {
        this.#done += 1;
        this.#call.progress(this.#done, ids.length);
      }
    };
    for await (const document of inOrder(each(ids), CONCURRENCY, one)) documents.push(document);
    if (failed === ids.length)
      throw new SatelliteError("permanent", "nothing_parsed", "no document could be parsed");
    return { documents, failed };
  }

  async #ofProject(key: string, id: string): Promise<JsonObject> {
    const source = await projectDocument(this.#call, id);
    if (this.#call.config.server === undefined) return this.#output(key, await this.#embedded(source));
    return this.#converted(key, source.name, async () => ({ ...source, bytes: await source.load() }));
  }

  async #ofUrl(key: string, url: string): Promise<JsonObject> {
    const { server } = this.#call.config;
    const fetch = () => fetchedDocument(this.#call, url);
    if (server === undefined) return this.#output(key, await this.#embedded(await fetch()));
    return this.#converted(key, nameOfUrl(url), async () => {
      if (server.fetch_urls === "server") return { url };
      const source = await fetch();
      return { ...source, bytes: await source.load() };
    });
  }

  async #embedded(source: DocumentSource): Promise<Parsed> {
    const { input, signal } = this.#call;
    const { name, mimeType } = source;
    const result = await this.#parser.parse(async () => {
      const bytes = await source.load();
      const kind = documentKind(bytes, name, mimeType);
      return kind.ok ? { bytes, kind: kind.kind, format: input.format } : kind;
    }, signal);
    if (!result.ok) throw failed(result);
    const { pagesWithoutText = [] } = result;
    return {
      name,
      engine: "embedded",
      package: result.package,
      pages: result.pages ?? null,
      isPartial: pagesWithoutText.length > 0,
      pagesWithoutText,
      text: result.text,
    };
  }

  /** Kept before anything else, because the server returns a result once. */
  async #converted(key: string, name: string, load: () => Promise<DoclingSource>): Promise<JsonObject> {
    const { config, input, notes } = this.#call;
    if (config.server === undefined)
      throw new SatelliteError("permanent", "no_server", "there is no docling server");
    const facts = { name, engine: "docling", package: null, pages: null, pagesWithoutText: [] } as const;
    const kept = await findKept(this.#call, key);
    if (kept !== undefined) {
      const text = await this.#read(kept.id);
      return this.#output(key, { ...facts, isPartial: notes.get(`${key} partial`) === true, text }, true);
    }
    const docling = new Docling(this.#call, config.server, input.format);
    const { text, isPartial } = await docling.convert(`${key} task`, load);
    if (isPartial) await notes.set(`${key} partial`, true);
    return this.#output(key, { ...facts, isPartial, text }, true);
  }

  async #read(id: string): Promise<string> {
    const chunks: Uint8Array[] = [];
    for await (const chunk of this.#call.files.read(this.#call.project, id)) chunks.push(chunk);
    return Buffer.concat(chunks).toString("utf8");
  }

  /** Keeps it where there is no room for it, or where it must be kept. */
  async #output(key: string, parsed: Parsed, isKept = false): Promise<JsonObject> {
    const { text, isPartial, pagesWithoutText, ...facts } = parsed;
    const { format, as } = this.#call.input;
    const bytes = Buffer.byteLength(JSON.stringify(text));
    const isInline = as === "auto" && bytes <= this.#inlineLeft;
    if (isInline) this.#inlineLeft -= bytes;
    const file =
      isKept || !isInline
        ? await keepFile(this.#call, key, {
            name: `${facts.name}.${ENDINGS[format]}`,
            mimeType: TYPES[format],
            chunks: chunksOf(text),
          })
        : undefined;
    const isJson = format === "json";
    return {
      ...facts,
      format,
      text: isInline && !isJson ? text : null,
      data: isInline && isJson ? (JSON.parse(text) as Json) : null,
      file: file === undefined ? null : { ...referenceOf(file) },
      is_partial: isPartial,
      pages_without_text: [...pagesWithoutText],
    };
  }
}

async function* each(ids: readonly string[]): AsyncGenerator<readonly [number, string]> {
  yield* ids.entries();
}

async function* chunksOf(text: string): AsyncGenerator<Uint8Array> {
  yield Buffer.from(text);
}

function failed({ code, message }: Extract<ParseResult, { ok: false }>): SatelliteError {
  return new SatelliteError("permanent", code, message);
}
