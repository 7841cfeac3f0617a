/**
 * A docling server (docling-serve, its v1 interface) for one document at a time.
 *
 *   submitted -> task noted -> polled until it is over -> result read -> kept by the caller
 *        ^            \-> 404: forgotten there -> submitted again
 *
 * A result may be read once, and is forgotten after some minutes: the reader stores it before anything else. Converting a document
 * again does no harm. Source: https://github.com/docling-project/docling-serve/blob/main/docs/usage.md, state 2026-11-21.
 *
 * Limits: 64 MiB of a result; the server is asked to hold a poll for 10 s, and asked once a second where it does not.
 */
import { randomUUID } from "node:crypto";
import { z } from "../../../schema.ts";
import type { GuardedResponse } from "../../sdk/guarded_http.ts";
import type { SatelliteCall } from "../../sdk/satellite.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";
import { errorOf, type Outgoing, send } from "../exchange/exchange.ts";
import { IS_SECRET } from "../exchange/receiver_fields.ts";
import type { DocumentFormat } from "./parsed_document.ts";

/** A docling server of the user's, and how it is to read. */
export interface DoclingConfig {
  readonly url: string;
  readonly api_key?: string | undefined;
  readonly ocr: "auto" | "always" | "never";
  readonly ocr_languages?: readonly string[] | undefined;
  readonly tables?: "fast" | "accurate" | undefined;
  readonly fetch_urls: "here" | "server";
}

export const doclingConfig: z.ZodType<DoclingConfig> = z.strictObject({
  url: z.url().max(2_048).describe("Where it is, such as `https://docling.example.com`."),
  api_key: z
    .string()
    .min(1)
    .max(4_096)
    .meta(IS_SECRET)
    .optional()
    .describe("Sent as `X-Api-Key`; as `secret://name`."),
  ocr: z.enum(["auto", "always", "never"]).default("auto").describe("Whether text is read from pictures."),
  ocr_languages: z
    .array(z.string().regex(/^[\w-]{1,32}$/))
    .max(16)
    .optional()
    .describe("As the server's OCR engine calls them."),
  tables: z.enum(["fast", "accurate"]).optional().describe("How tables are read. Default: the server's."),
  fetch_urls: z
    .enum(["here", "server"])
    .default("here")
    .describe("Who fetches a document with a URL: perigee, only from public addresses, or the server."),
});

/** What is to be converted: bytes, or an address that the server fetches. */
export type DoclingSource =
  | { readonly name: string; readonly mimeType: string; readonly bytes: Uint8Array }
  | { readonly url: string };

export interface Converted {
  readonly text: string;
  /** The server read only a part of it. */
  readonly isPartial: boolean;
}

type Call = Pick<SatelliteCall, "http" | "signal" | "clock" | "notes">;

const POLL_SECONDS = 10;
const POLL_PAUSE_MS = 1_000;
const ANSWER_MS = 60_000;
const UPLOAD_MS = 600_000;
const RESULT_BYTES_MAX = 64 * 1024 * 1024;
const FORMATS: Readonly<Record<DocumentFormat, string>> = { markdown: "md", text: "text", json: "json" };
/** It becomes part of a path. */
const TASK_ID = /^[\w-]{1,128}$/;

const taskSchema = z.looseObject({ task_id: z.string().regex(TASK_ID), task_status: z.string() });
const resultSchema = z.looseObject({
  status: z.string(),
  document: z.looseObject({
    md_content: z.string().nullish(),
    text_content: z.string().nullish(),
    json_content: z.json().nullish(),
  }),
});

/** For one document of one attempt. */
export class Docling {
  readonly #call: Call;
  readonly #config: DoclingConfig;
  readonly #format: DocumentFormat;

  constructor(call: Call, config: DoclingConfig, format: DocumentFormat) {
    this.#call = call;
    this.#config = config;
    this.#format = format;
  }

  /**
   * Converts, or continues where an earlier attempt of the same key was. `load` is called only when nothing is under way.
   * Throws `SatelliteError`; the note of the task is removed when the server has forgotten it, or could not convert.
   */
  async convert(key: string, load: () => Promise<DoclingSource>): Promise<Converted> {
    const { notes } = this.#call;
    const noted = notes.get(key);
    let task = typeof noted === "string" ? await this.#poll(noted) : undefined;
    if (task === undefined) {
      const id = await this.#submit(await load());
      await notes.set(key, id);
      task = await this.#poll(id);
    }
    for (; task !== undefined && !isOver(task.task_status); task = await this.#poll(task.task_id))
      await this.#pause();
    const result = task?.task_status === "success" ? await this.#result(task.task_id) : undefined;
    if (result !== undefined) return result;
    await notes.set(key, null);
    if (task?.task_status === "failure")
      throw new SatelliteError(
        "permanent",
        "conversion_failed",
        "the docling server could not convert the document",
      );
    throw new SatelliteError("ambiguous", "result_lost", "the docling server has forgotten the document");
  }

  async #submit(source: DoclingSource): Promise<string> {
    const answer = await this.#ask(
      "url" in source ? this.#sourceRequest(source.url) : this.#fileRequest(source),
      UPLOAD_MS,
    );
    return parsed(taskSchema, answer).task_id;
  }

  #sourceRequest(url: string): Outgoing {
    const options = Object.fromEntries(this.#options().map(({ name, value }) => [name, value]));
    const body = { options, sources: [{ kind: "http", url }], target: { kind: "inbody" } };
    return {
      url: this.#url("/v1/convert/source/async"),
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    };
  }

  #fileRequest({ name, mimeType, bytes }: Extract<DoclingSource, { bytes: Uint8Array }>): Outgoing {
    const boundary = `perigee-${randomUUID()}`;
    const part = (head: string) => `--${boundary}\r\nContent-Disposition: form-data; name=${head}\r\n`;
    const fields = [...this.#options(), { name: "target_type", value: "inbody" }].flatMap(({ name, value }) =>
      [value].flat().map((one) => `${part(`"${name}"`)}\r\n${one}\r\n`),
    );
    const head = `${part(`"files"; filename="${escaped(name)}"`)}Content-Type: ${mimeType}\r\n\r\n`;
    return {
      url: this.#url("/v1/convert/file/async"),
      headers: { "content-type": `multipart/form-data; boundary=${boundary}` },
      body: Buffer.concat([
        Buffer.from(`${fields.join("")}${head}`),
        bytes,
        Buffer.from(`\r\n--${boundary}--\r\n`),
      ]),
    };
  }

  #options(): { readonly name: string; readonly value: string | boolean | readonly string[] }[] {
    const { ocr, ocr_languages, tables } = this.#config;
    return [
      { name: "to_formats", value: [FORMATS[this.#format]] },
      { name: "image_export_mode", value: "placeholder" },
      { name: "do_ocr", value: ocr !== "never" },
      { name: "force_ocr", value: ocr === "always" },
      ...(ocr_languages === undefined ? [] : [{ name: "ocr_lang", value: ocr_languages }]),
      ...(tables === undefined ? [] : [{ name: "table_mode", value: tables }]),
    ];
  }

  /** Undefined when the server knows of no such task any more. */
  async #poll(id: string): Promise<z.infer<typeof taskSchema> | undefined> {
    const url = this.#url(`/v1/status/poll/${id}?wait=${POLL_SECONDS}`);
    const answer = await this.#ask({ url, method: "GET", headers: {} }, ANSWER_MS, [404]);
    return answer.status === 404 ? undefined : parsed(taskSchema, answer);
  }

  /** Also where the server held the poll: then a second is little. */
  #pause(): Promise<void> {
    const { clock, signal } = this.#call;
    return clock.sleep(POLL_PAUSE_MS, { signal });
  }

  async #result(id: string): Promise<Converted | undefined> {
    const request = { url: this.#url(`/v1/result/${id}`), method: "GET", headers: {} };
    const answer = await this.#ask(request, UPLOAD_MS, [404]);
    if (answer.status === 404) return undefined;
    const { status, document } = parsed(resultSchema, answer);
    const { md_content, text_content, json_content } = document;
    const isDone = status === "success" || status === "partial_success";
    const content = { markdown: md_content, text: text_content, json: json_content }[this.#format];
    if (!isDone || content === undefined || content === null)
      throw new SatelliteError(
        "permanent",
        "conversion_failed",
        "the docling server could not convert the document",
      );
    return {
      text: typeof content === "string" ? content : JSON.stringify(content),
      isPartial: status === "partial_success",
    };
  }

  async #ask(
    request: Outgoing,
    timeoutMs: number,
    expected: readonly number[] = [],
  ): Promise<GuardedResponse> {
    const { api_key } = this.#config;
    const headers = api_key === undefined ? request.headers : { ...request.headers, "x-api-key": api_key };
    const answer = await send(
      this.#call,
      { ...request, headers },
      { timeoutMs, answerBytesMax: RESULT_BYTES_MAX },
    );
    if (expected.includes(answer.status)) return answer;
    const error = errorOf(answer, { wallMs: this.#call.clock.wallMs() });
    if (error !== undefined) throw error;
    return answer;
  }

  #url(path: string): string {
    return `${this.#config.url.replace(/\/+$/, "")}${path}`;
  }
}

function isOver(status: string): boolean {
  return status === "success" || status === "failure";
}

/** The answer's JSON; an answer of another shape is not from a docling server. */
function parsed<T>(schema: z.ZodType<T>, { body, isWhole }: GuardedResponse): T {
  if (!isWhole && body.byteLength >= RESULT_BYTES_MAX)
    throw new SatelliteError("permanent", "result_too_large", "the docling server's answer is too large");
  if (!isWhole) throw new SatelliteError("ambiguous", "connection_lost", "the answer arrived incomplete");
  let json: unknown;
  try {
    json = JSON.parse(new TextDecoder().decode(body));
  } catch {
    json = undefined;
  }
  const result = schema.safeParse(json);
  if (result.success) return result.data;
  throw new SatelliteError(
    "permanent",
    "invalid_answer",
    "the address does not answer like a docling server of version 1",
  );
}

/** As forms of browsers write names of files. */
function escaped(name: string): string {
  return name.replace(/"/g, "%22").replace(/[\r\n]/g, "_");
}
