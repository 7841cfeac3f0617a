/**
 * Requests to other workers, at their private addresses. Each ends when its worker is known to be dead, or is silent.
 *
 * Uses Node's `http` client: only the transport of attempts imports undici, and headers pass through unchanged.
 */
import { Agent, type ClientRequest, request as send } from "node:http";
import type { Clock } from "../../clock.ts";
import { plain } from "../../service/http/errors.ts";
import { PART_HEADER, SECRET_HEADER } from "../hop_headers.ts";
import { SilentWorkers } from "./silent_workers.ts";

/** The worker that is to answer. */
export interface HopTarget {
  readonly address: string;
  readonly part: number;
  /** Aborts when the worker is known to be dead: it may hold the connection and never answer. */
  readonly died: AbortSignal;
}

/** The head of a request; `headers` are names and values in turn. */
export interface HopHead {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: readonly string[];
}

/** What a client reads when a worker broke off. */
export const BROKEN_OFF: ReturnType<typeof plain> = plain(
  502,
  "connection_lost",
  "the process that answers for this project broke off; whether the request was done is not known",
);

/** Shorter than the private port keeps idle connections (ports.ts). */
const IDLE_MS = 30_000;

export class Hops {
  readonly #secret: string;
  readonly #agent = new Agent({ keepAlive: true, timeout: IDLE_MS });
  readonly #silent: SilentWorkers;

  /** `secret`: that of the fleet. */
  constructor(clock: Clock, secret: string) {
    this.#secret = secret;
    this.#silent = new SilentWorkers(clock, (address, signal) => ping(address, secret, signal));
  }

  /** Begins a request, whose body its caller sends. It emits `error` when its worker dies or is silent; so does its answer, once that has begun. */
  begin({ address, part, died }: HopTarget, { method = "GET", url = "/", headers }: HopHead): ClientRequest {
    const upstream = send({
      ...{ ...placeOf(address), method, path: url, agent: this.#agent },
      headers: [...headers, SECRET_HEADER, this.#secret, PART_HEADER, String(part)],
    });
    const watched = this.#silent.watch(address);
    const onDeath = (): void => void upstream.destroy(new Error("the worker is dead"));
    const onSilence = (): void => void upstream.destroy(new Error("the worker is silent"));
    died.addEventListener("abort", onDeath);
    watched.signal.addEventListener("abort", onSilence);
    upstream.once("close", () => {
      died.removeEventListener("abort", onDeath);
      watched.signal.removeEventListener("abort", onSilence);
      watched.end();
    });
    if (died.aborted) onDeath();
    return upstream;
  }

  close(): void {
    this.#agent.destroy();
  }
}

/** Any answer will do: without a partition it is a refusal. */
function ping(address: string, secret: string, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const headers = { [SECRET_HEADER]: secret };
    const upstream = send({ ...placeOf(address), agent: false, headers, signal });
    upstream.on("error", reject);
    upstream.on("response", (answer) => {
      answer.resume();
      resolve();
    });
    upstream.end();
  });
}

interface Place {
  readonly host: string;
  readonly port: string;
}

function placeOf(address: string): Place {
  const { hostname, port } = new URL(address);
  return { host: hostname.replace(/^\[|\]$/g, ""), port };
}
