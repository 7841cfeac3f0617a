/**
 * A POST with an `Idempotency-Key`: its work is done once (`idempotency.ts`), over the bytes of its body as they arrived.
 *
 * Requests without the header go straight to their work. A body that was read whole is kept as bytes beside what it was
 * parsed to, only for those with the header; one that is streamed is hashed on its way.
 */
import { ifFound } from "../../errors.ts";
import type { FastifyReply, FastifyRequest } from "./fastify.ts";
import type { Idempotency } from "./idempotency.ts";
import { type BodyBounds, bodyBytes } from "./infer_body.ts";
import { KEY_HEADER } from "./json_body.ts";

export interface OnceWork<T> {
  /** Headers that make it another request, beside method, path and body. */
  readonly about?: readonly string[];
  /** How large a body may be that is streamed. */
  readonly bounds?: BodyBounds | undefined;
  /** Makes the thing under the id, or under a new one; reads `body`, if passed, instead of the request's. */
  readonly make: (id?: string, body?: AsyncIterable<Uint8Array>) => Promise<T>;
  /** Throws `not_found` when nothing was made under the id. */
  readonly find: (id: string) => Promise<T>;
}

/** The result of the work, now or before; sends `idempotent-replayed: true` then. Throws as `Idempotency.once`. */
export async function onceFor<T>(
  idempotency: Idempotency,
  { request, reply }: { readonly request: FastifyRequest; readonly reply: FastifyReply },
  { about = [], bounds, make, find }: OnceWork<T>,
): Promise<T> {
  const key = request.headers[KEY_HEADER];
  if (key === undefined) return make();
  const { raw, caller, method, routeOptions } = request;
  const isStreamed = request.body === raw;
  try {
    const { value, isReplayed } = await idempotency.once(
      {
        project: caller.project,
        key: String(key),
        about: [method, routeOptions.url ?? "", ...about],
        body: isStreamed ? bodyBytes(raw, bounds) : (request.wholeBody ?? new Uint8Array(0)),
      },
      {
        make: (id, body) => (body instanceof Uint8Array ? make(id) : make(id, body)),
        find: (id) => ifFound(find(id)),
      },
    );
    if (isReplayed) reply.header("idempotent-replayed", "true");
    return value;
  } finally {
    if (isStreamed) raw.resume(); // what was not read is read and forgotten, so that the client reads the answer
  }
}
