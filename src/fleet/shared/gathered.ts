/**
 * Requests that concern every partition: sent to each of them, and answered with their joined answers.
 *
 *   GET /v0/margin              the projects of all partitions, and the sums over them; needs each partition to have an owner
 *   POST /v0/provider-events/   a hint that a batch has ended: nobody knows which partition has it
 *
 *   asked -> every partition has answered -> answered
 *         -> some have not                -> asked again until the deadline, then undefined (the margin), or answered by those that have
 *
 * Limit: answers of 16 MiB.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Clock } from "../../clock.ts";
import { joinedMargins, type MarginAnswer } from "../../service/infer/margin.ts";
import type { FleetDirectory } from "../directory.ts";
import { ELSEWHERE_HEADER, passedHeaders, withoutFraming } from "../hop_headers.ts";
import type { Hops } from "../hops/hops.ts";

/** As the services accept of an event. */
const BODY_BYTES_MAX = 64 * 1024;
const ANSWER_BYTES_MAX = 16 * 1024 * 1024;
const MARGIN = "/v0/margin";
const EVENTS = "/v0/provider-events/";
const OF_CONTENT = new Set(["content-length", "transfer-encoding", "etag", "connection", "keep-alive"]);

interface Asked {
  readonly body: Uint8Array;
  readonly deadlineMs: number;
}

/** What a partition has answered. */
interface PartAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

export interface GatheringOptions {
  readonly clock: Clock;
  readonly directory: FleetDirectory;
  readonly hops: Hops;
}

export class Gathering {
  readonly #options: GatheringOptions;

  constructor(options: GatheringOptions) {
    this.#options = options;
  }

  /** Whether a request is for every partition. One with a larger body is refused by any of them. */
  isFor({ method, url = "", headers }: IncomingMessage): boolean {
    const [path = ""] = url.split("?", 1);
    if (method === "GET") return path === MARGIN;
    const bytes = Number(headers["content-length"] ?? Number.NaN);
    return method === "POST" && path.startsWith(EVENTS) && bytes <= BODY_BYTES_MAX;
  }

  /** Answers a request whose body was read, and returns true; false, with nothing written, where that was not possible before the deadline. */
  async answer(
    request: IncomingMessage,
    response: ServerResponse,
    { body, deadlineMs }: Asked,
  ): Promise<boolean> {
    const { clock, directory } = this.#options;
    const needsAll = request.method === "GET";
    let last: readonly PartAnswer[] = [];
    for (;;) {
      const { free } = directory.stateFor("");
      const parts = directory.ownedParts;
      const answers = await Promise.all(parts.map((part) => this.#ask(part, request, { body, deadlineMs })));
      if (response.destroyed) return true;
      const found = answers.filter((answer) => answer !== undefined);
      if (found.length > 0) last = found; // the last round may have too little time
      const isLate = clock.nowMs() >= deadlineMs;
      const isWhole = found.length > 0 && found.length === parts.length && free.length === 0;
      if (last.length > 0 && (isWhole || (isLate && !needsAll))) {
        write(response, needsAll ? joined(last) : best(last));
        return true;
      }
      if (isLate) return false;
      await directory.renewed();
    }
  }

  /** Undefined where its owner did not answer before the deadline. */
  #ask(part: number, request: IncomingMessage, { body, deadlineMs }: Asked): Promise<PartAnswer | undefined> {
    const { clock, directory, hops } = this.#options;
    const owner = directory.ownerOf(part);
    if (owner === undefined) return Promise.resolve(undefined);
    const { method, url, rawHeaders, headers } = request;
    const passed = withoutFraming(passedHeaders(rawHeaders, headers.connection));
    passed.push("content-length", String(body.byteLength));
    const target = { part, address: owner.address, died: directory.deathOf(owner.id) };
    return new Promise((resolve) => {
      const upstream = hops.begin(target, { method, url, headers: passed });
      const timer = clock.timer(deadlineMs - clock.nowMs(), () => end(undefined));
      const end = (answer: PartAnswer | undefined): void => {
        timer.cancel();
        if (answer === undefined) upstream.destroy();
        resolve(answer);
      };
      upstream.on("error", () => end(undefined));
      upstream.on("response", (answer) => void readAnswer(answer).then(end, () => end(undefined)));
      upstream.end(body);
    });
  }
}

/** Undefined for one that the partition's owner did not give. */
async function readAnswer(answer: IncomingMessage): Promise<PartAnswer | undefined> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer) {
    bytes += (chunk as Buffer).byteLength; // no encoding was set
    if (bytes > ANSWER_BYTES_MAX) return undefined;
    chunks.push(chunk as Buffer);
  }
  const { statusCode: status = 502, headers } = answer;
  if (headers[ELSEWHERE_HEADER] !== undefined) return undefined;
  return { status, headers, text: Buffer.concat(chunks).toString() };
}

/** If one partition has refused, its refusal is the answer. */
function joined(answers: readonly PartAnswer[]): PartAnswer {
  const [first] = answers as [PartAnswer]; // there is one
  const refused = answers.find(({ status }) => status !== 200);
  if (refused !== undefined) return refused;
  const bodies = answers.map(({ text }) => JSON.parse(text) as MarginAnswer); // as the service wrote them
  return { ...first, text: JSON.stringify(joinedMargins(bodies)) };
}

/** The event was taken if one has taken it. */
function best(answers: readonly PartAnswer[]): PartAnswer {
  return answers.toSorted((one, other) => one.status - other.status)[0] as PartAnswer; // there is one
}

function write(response: ServerResponse, { status, headers, text }: PartAnswer): void {
  const passed = Object.entries(headers).filter(([name]) => !OF_CONTENT.has(name));
  const length = status === 204 ? {} : { "content-length": Buffer.byteLength(text) };
  response.writeHead(status, { ...Object.fromEntries(passed), ...length });
  response.end(text);
}
