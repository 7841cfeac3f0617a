/**
 * Forms that carry one file: `multipart/form-data` with a field `file`, and few other fields before or after it.
 *
 *   reading fields -> file (its bytes go where the route says) -> reading fields -> whole
 *      \-> refused: what still arrives is read and dropped, so that a client that writes first can read the answer
 *
 * Limits: other fields 1 KiB each, by name; the headers of a part 8 KiB; what arrives after a refusal is read for a
 * minute. A part named `file` is the file whether or not it has a file name.
 */
import type { IncomingMessage } from "node:http";
import type { Clock } from "../../clock.ts";
import { PerigeeError } from "../../errors.ts";
import { z } from "../../schema.ts";
import { FILE_BYTES_MAX } from "../../tasks/files/files.ts";
import {
  type FastifyInstance,
  type FastifyRequest,
  type MultipartFile,
  type MultipartValue,
  multipart,
} from "../http/fastify.ts";
import { StallWatch } from "./transfers.ts";

/** Registers routes that take forms, in a scope where nothing else reads bodies. */
export function registerForms(app: FastifyInstance, register: (scope: FastifyInstance) => void): void {
  app.register(async (scope) => {
    scope.removeAllContentTypeParsers();
    await scope.register(multipart);
    register(scope);
  });
}

/** What the description says of the field `file`. */
export const fileField: z.ZodString = z
  .string()
  .meta({ format: "binary" })
  .describe("The file, with or without a file name.");

/** The file of a form, while it arrives. */
export interface FormFile {
  /** As the form names it; absent when it does not. */
  readonly name: string | undefined;
  /** The type that the form names for the file; absent without one. */
  readonly mimeType: string | undefined;
  /** Ends when the whole form is read and right; throws `invalid_request` otherwise. Read it once, to its end. */
  readonly chunks: AsyncIterable<Uint8Array>;
  /** Other fields; all of them once `chunks` has ended. */
  readonly fields: ReadonlyMap<string, string>;
}

export interface FormOptions {
  readonly clock: Clock;
  /** Fields that may be there beside the file. */
  readonly fieldNames: readonly string[];
  /** Throws when the fields are wrong; called once all have arrived, before `chunks` ends. */
  readonly check?: (fields: ReadonlyMap<string, string>) => void;
}

type Part = MultipartFile | MultipartValue;

const FIELD_BYTES_MAX = 1_024;
const PART_HEADER_BYTES_MAX = 8 * 1024;
const PART_HEADERS_MAX = 16;
/** Of a form beside its file. */
const FORM_BYTES_MAX = 64 * 1024;
const DRAIN_MS = 60_000;
const HEADER_END = Buffer.from("\r\n\r\n");

/** Reads the form of a request; resolves with what `take` makes of its file. */
export async function takeFile<T>(
  request: FastifyRequest,
  options: FormOptions,
  take: (file: FormFile) => Promise<T>,
): Promise<T> {
  if (!request.isMultipart()) throw Object.assign(new Error("no form"), { statusCode: 415 });
  refuseLength(request.raw);
  const reader = new FormReader(request, options);
  try {
    return await take(await reader.file());
  } catch (error) {
    drain(request.raw, options.clock);
    throw error;
  } finally {
    reader.close();
  }
}

/** Before its first byte. */
function refuseLength({ headers }: IncomingMessage): void {
  if (!(Number(headers["content-length"]) > FILE_BYTES_MAX + FORM_BYTES_MAX)) return; // NaN without the header
  throw new PerigeeError("too_large", `a file has at most ${FILE_BYTES_MAX} bytes`, {
    details: { param: "file", max: FILE_BYTES_MAX },
  });
}

class FormReader {
  readonly #raw: IncomingMessage;
  readonly #options: FormOptions;
  readonly #parts: AsyncIterator<Part>;
  readonly #fields = new Map<string, string>();
  readonly #watch: StallWatch;
  /** Rejects when the first part's headers are too long: the parser would cut them off in silence. */
  readonly #headerGuard: Promise<never>;

  constructor(request: FastifyRequest, options: FormOptions) {
    this.#raw = request.raw;
    this.#options = options;
    this.#watch = new StallWatch(options.clock, () => this.#raw.destroy());
    const fields = options.fieldNames.length;
    this.#parts = request.parts({
      isPartAFile: (name: string | undefined) => name === "file",
      limits: {
        files: 1,
        fields,
        parts: fields + 1,
        fieldSize: FIELD_BYTES_MAX,
        fileSize: Number.MAX_SAFE_INTEGER,
        headerPairs: PART_HEADERS_MAX,
        headerSize: PART_HEADER_BYTES_MAX,
      },
    } as Parameters<FastifyRequest["parts"]>[0]); // the types lack two options of the parser
    this.#headerGuard = guardHeaders(this.#raw);
    this.#headerGuard.catch(() => undefined); // it may reject when nothing waits for it any more
  }

  async file(): Promise<FormFile> {
    for (;;) {
      const part = await this.#next();
      if (part === undefined) throw wrongForm("it has no field named file");
      if (part.type === "file")
        return {
          name: part.filename,
          mimeType: part.mimetype === "" ? undefined : part.mimetype,
          chunks: this.#chunks(part),
          fields: this.#fields,
        };
      this.#takeField(part);
    }
  }

  close(): void {
    this.#watch.moved();
  }

  async *#chunks(part: MultipartFile): AsyncGenerator<Uint8Array> {
    const chunks = part.file[Symbol.asyncIterator]();
    try {
      for (;;) {
        const next = await this.#moving(chunks.next());
        if (next.done === true) break;
        yield next.value as Buffer;
      }
    } finally {
      part.file.destroy();
    }
    for (let rest = await this.#next(); rest !== undefined; rest = await this.#next()) {
      if (rest.type === "file") throw wrongForm("it has more than one file");
      this.#takeField(rest);
    }
    this.#options.check?.(this.#fields);
  }

  async #next(): Promise<Part | undefined> {
    const next = await this.#moving(Promise.race([this.#parts.next(), this.#headerGuard]));
    return next.done === true ? undefined : next.value;
  }

  /** Waits for the client, and turns what the parser says into perigee's errors. */
  async #moving<R>(step: Promise<R>): Promise<R> {
    this.#watch.waiting();
    try {
      return await step;
    } catch (error) {
      throw this.#refusalOf(error);
    } finally {
      this.#watch.moved();
    }
  }

  #refusalOf(error: unknown): PerigeeError {
    if (error instanceof PerigeeError) return error;
    const code = String(typeof error === "object" && error !== null ? Reflect.get(error, "code") : undefined);
    if (code === "FST_MP_PREMATURE_CLOSE")
      return new PerigeeError("interrupted", "the client has left", { cause: error });
    const reason = REASONS[code] ?? "it cannot be read";
    return wrongForm(reason, error);
  }

  #takeField({ fieldname, value, valueTruncated }: MultipartValue): void {
    if (!this.#options.fieldNames.includes(fieldname))
      throw wrongForm("it has a field that is not known here");
    if (this.#fields.has(fieldname)) throw wrongForm(`the field ${fieldname} occurs twice`);
    if (valueTruncated || typeof value !== "string")
      throw wrongForm(`the field ${fieldname} must be text of at most ${FIELD_BYTES_MAX} bytes`);
    this.#fields.set(fieldname, value);
  }
}

const REASONS: Readonly<Record<string, string>> = {
  FST_FILES_LIMIT: "it has more than one file",
  FST_PARTS_LIMIT: "it has more fields than are known here",
  FST_FIELDS_LIMIT: "it has more fields than are known here",
  FST_PROTO_VIOLATION: "it has a field that is not known here",
};

/** Rejects when the headers of the first part have not ended in time. Attach what reads `raw` in the same turn. */
function guardHeaders(raw: IncomingMessage): Promise<never> {
  let head = Buffer.alloc(0);
  return new Promise((_resolve, reject) => {
    const look = (chunk: Buffer): void => {
      head = Buffer.concat([head, chunk.subarray(0, PART_HEADER_BYTES_MAX + HEADER_END.length)]);
      const end = head.indexOf(HEADER_END);
      const isTooLong = end > PART_HEADER_BYTES_MAX || (end < 0 && head.length > PART_HEADER_BYTES_MAX);
      if (end < 0 && !isTooLong) return;
      raw.off("data", look);
      head = Buffer.alloc(0);
      if (isTooLong) reject(wrongForm(`the headers of a part have more than ${PART_HEADER_BYTES_MAX} bytes`));
    };
    raw.on("data", look);
  });
}

function drain(raw: IncomingMessage, clock: Clock): void {
  if (raw.destroyed || raw.readableEnded) return;
  raw.unpipe();
  raw.resume();
  const timer = clock.timer(DRAIN_MS, () => raw.destroy(), { keepsAlive: false });
  raw.once("close", () => timer.cancel());
}

function wrongForm(reason: string, cause?: unknown): PerigeeError {
  const message = `the form must have one field named file, and must be complete: ${reason}`;
  return new PerigeeError("invalid_request", message, { cause, details: { param: "file" } });
}
