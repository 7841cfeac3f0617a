/**
 * Files and batches on OpenAI's wire, for simulations: what is uploaded is kept, a batch finishes its requests evenly over a drawn time.
 *
 *   in_progress --its time--> completed
 *        \--cancel--> cancelling --its time--> cancelled, with what was finished
 *
 * Wire: docs/reference/providers.md. A stuck batch finishes half of its requests and has no end.
 */
import type { WireResult } from "../../dispatch/transport.ts";
import type { PriorSeconds } from "../../queue/lane_priors.ts";
import { curveOf } from "../../queue/plan/latency_curve.ts";
import type { FakeClock } from "../fake_clock.ts";
import { jsonAnswer, openaiError } from "../scripted_transport.ts";
import { type AskedAnswer, answerBody, askedIn, type GivenAnswer } from "./simulated_answers.ts";
import type { SimulatedBatch, SimulationEvent } from "./simulation_terms.ts";

const LATENCY: PriorSeconds = { p50: 156, p90: 2_100, p99: 21_960 };
const CANCEL_SECONDS = 60;
const STUCK_AT = 0.5;

interface File {
  readonly id: string;
  readonly filename: string;
  readonly bytes: number;
  readonly lines: readonly string[];
}

interface Batch {
  readonly id: string;
  readonly input: File;
  readonly metadata: unknown;
  readonly createdMs: number;
  readonly tookMs: number;
  readonly isStuck: boolean;
  cancelledMs: number | undefined;
  /** Its results, made when it has ended. */
  output: File | undefined;
}

/** What it is made with. */
export interface BatchServerTerms {
  readonly behaviour: SimulatedBatch;
  readonly answered: (asked: AskedAnswer) => GivenAnswer;
}

/** Who is told what happens. */
export interface BatchServerBook {
  /** A request of a batch is finished. */
  request(asked: AskedAnswer, given: { readonly outputTokens: number }): void;
  batch(event: Pick<Extract<SimulationEvent, { readonly type: "batch" }>, "id" | "state" | "items">): void;
}

/** One for a provider. */
export class OpenaiBatchServer {
  readonly #terms: BatchServerTerms;
  readonly #clock: FakeClock;
  readonly #random: () => number;
  readonly #book: BatchServerBook;
  readonly #files = new Map<string, File>();
  readonly #batches = new Map<string, Batch>();

  constructor(terms: BatchServerTerms, clock: FakeClock, random: () => number, book: BatchServerBook) {
    this.#terms = terms;
    this.#clock = clock;
    this.#random = random;
    this.#book = book;
  }

  /** The answer to a request; undefined for one that is not about files or batches. */
  script(method: string, path: string, body: string): WireResult | undefined {
    const [, resource, id, verb] =
      /\/(files|batches)(?:\/([^/?]+))?(?:\/([^/?]+))?(?:\?.*)?$/.exec(path) ?? [];
    if (resource === undefined) return undefined;
    return resource === "files"
      ? this.#onFile(method, id, verb, body)
      : this.#onBatch(method, id, verb, body);
  }

  #onFile(method: string, id: string | undefined, verb: string | undefined, body: string): WireResult {
    if (id === undefined && method === "POST") return jsonAnswer(200, shownFile(this.#upload(body)));
    if (id === undefined) return listOf([...this.#files.values()].map(shownFile));
    const file = this.#files.get(id);
    if (file === undefined) return missing(id);
    if (method === "DELETE") {
      this.#files.delete(id);
      return jsonAnswer(200, { id, object: "file", deleted: true });
    }
    return verb === "content" ? textAnswer(file.lines) : jsonAnswer(200, shownFile(file));
  }

  #onBatch(method: string, id: string | undefined, verb: string | undefined, body: string): WireResult {
    if (id === undefined && method === "GET")
      return listOf([...this.#batches.values()].reverse().map((batch) => this.#shown(batch)));
    if (id === undefined) return this.#create(body);
    const batch = this.#batches.get(id);
    if (batch === undefined) return missing(id);
    if (verb === "cancel" && this.#endMs(batch) > this.#clock.nowMs()) {
      batch.cancelledMs ??= this.#clock.nowMs();
      this.#book.batch({ id, state: "cancelling", items: batch.input.lines.length });
    }
    return jsonAnswer(200, this.#shown(batch));
  }

  /** Of a multipart body the lines that are requests. */
  #upload(body: string): File {
    const filename = /filename=(\S+)/.exec(body)?.[1]?.slice(1, -1) ?? ""; // it is quoted
    const lines = body.split("\n").filter((line) => line.startsWith("{"));
    return this.#add(filename, lines);
  }

  #add(filename: string, lines: readonly string[]): File {
    const id = `file-${this.#files.size + this.#batches.size + 1}-${Math.floor(this.#random() * 1e9)}`;
    const bytes = lines.reduce((sum, line) => sum + Buffer.byteLength(line) + 1, 0);
    const file = { id, filename, bytes, lines };
    this.#files.set(id, file);
    return file;
  }

  #create(body: string): WireResult {
    const asked = askedIn(body, "").body;
    const input = this.#files.get(String(asked["input_file_id"]));
    if (input === undefined) return missing(String(asked["input_file_id"]));
    const { latency = LATENCY, stuckShare = 0 } = this.#terms.behaviour;
    const [p50, p90, p99] = [latency.p50, latency.p90, latency.p99].map((seconds) => seconds * 1_000);
    const batch: Batch = {
      id: `batch_${this.#batches.size + 1}`,
      input,
      metadata: asked["metadata"],
      createdMs: this.#clock.nowMs(),
      tookMs: curveOf({ p50: p50 as number, p90: p90 as number, p99: p99 as number }).quantileMs(
        this.#random(),
      ),
      isStuck: this.#random() < stuckShare,
      cancelledMs: undefined,
      output: undefined,
    };
    this.#batches.set(batch.id, batch);
    this.#book.batch({ id: batch.id, state: "created", items: input.lines.length });
    return jsonAnswer(200, this.#shown(batch));
  }

  #endMs({ createdMs, tookMs, isStuck, cancelledMs }: Batch): number {
    const { cancelSeconds = CANCEL_SECONDS } = this.#terms.behaviour;
    const endMs = isStuck ? Number.POSITIVE_INFINITY : createdMs + tookMs;
    return cancelledMs === undefined ? endMs : Math.min(endMs, cancelledMs + cancelSeconds * 1_000);
  }

  #finished({ createdMs, tookMs, isStuck, cancelledMs, input }: Batch): number {
    const untilMs = Math.min(this.#clock.nowMs(), cancelledMs ?? Number.POSITIVE_INFINITY);
    const share = Math.min(1, (untilMs - createdMs) / tookMs);
    return Math.floor(input.lines.length * (isStuck ? Math.min(share, STUCK_AT) : share));
  }

  #shown(batch: Batch): object {
    const { id, input, metadata, createdMs, cancelledMs } = batch;
    const startMs = this.#clock.wallMs() - this.#clock.nowMs();
    const hasEnded = this.#clock.nowMs() >= this.#endMs(batch);
    const completed = this.#finished(batch);
    const isWhole = completed === input.lines.length;
    if (hasEnded) batch.output ??= this.#end(batch, completed);
    const ended = isWhole ? "completed" : "cancelled";
    return {
      ...{ id, object: "batch", input_file_id: input.id, metadata, errors: null, error_file_id: null },
      status: hasEnded ? ended : cancelledMs === undefined ? "in_progress" : "cancelling",
      output_file_id: batch.output?.id ?? null,
      created_at: Math.floor((startMs + createdMs) / 1_000),
      request_counts: { total: input.lines.length, completed, failed: 0 },
    };
  }

  #end({ id, input }: Batch, finished: number): File {
    const lines = input.lines.slice(0, finished).map((line, index) => {
      const { custom_id, body } = JSON.parse(line) as { readonly custom_id: string; readonly body: object };
      const asked = askedIn(JSON.stringify(body), "");
      const given = this.#terms.answered(asked);
      this.#book.request(asked, { outputTokens: given.outputTokens });
      const response = {
        status_code: 200,
        request_id: `req_${index}`,
        body: { ...answerBody("openai", asked, given), service_tier: "batch" },
      };
      return JSON.stringify({ id: `batch_req_${id}_${index}`, custom_id, response, error: null });
    });
    this.#book.batch({ id, state: "ended", items: finished });
    return this.#add(`${id}_output.jsonl`, lines);
  }
}

function shownFile({ id, filename, bytes }: File): object {
  return { id, object: "file", filename, bytes, purpose: "batch", status: "processed", created_at: 0 };
}

function listOf(data: readonly object[]): WireResult {
  return jsonAnswer(200, { object: "list", data, has_more: false });
}

function missing(id: string): WireResult {
  return openaiError(404, { message: `${id} does not exist`, type: "invalid_request_error" });
}

function textAnswer(lines: readonly string[]): WireResult {
  const body = new TextEncoder().encode(lines.map((line) => `${line}\n`).join(""));
  return { ok: true, status: 200, headers: { "content-type": "application/octet-stream" }, body };
}
