/**
 * The only import of fastify and what belongs to it: HTTP in, multipart, schemas to descriptions.
 *
 * To leave: routes are functions of a request and a context; for another framework rewrite this file and `server.ts`.
 */
import type { z } from "../../schema.ts";
import type { RequestEvent } from "../../store/audit/audit_line.ts";
import type { Caller, Scope } from "./caller.ts";
import type { KeyArea } from "./key_verifier.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /** What the key must allow; a route without it is open to everybody. */
    readonly scope?: Scope;
    /** How callers pass the key. Default `v0`. */
    readonly area?: KeyArea;
    /** A JSON body above 1 MiB is passed as the request itself, unread. */
    readonly streamsBody?: boolean;
    /** Query parameters are ignored, or checked by the handler, whose schema does not declare them. */
    readonly takesAnyQuery?: boolean;
    /** Its request is proven without a key, and its body is read as bytes: 401 for all that is not proven. */
    readonly isProvenByRequest?: boolean;
    /** What an answer of 2xx leaves in the audit log. */
    readonly event?: RequestEvent;
    /** The fields of a form, for the description; the handler reads the form itself. */
    readonly form?: z.ZodType;
    /** Headers that the description names; the handler reads them itself. */
    readonly headers?: readonly (
      | "Idempotency-Key"
      | "Output-Format"
      | "x-perigee-sla"
      | "x-perigee-schema"
      | "x-perigee-cache"
    )[];
  }
  interface FastifyRequest {
    /** Who calls; only on routes with a scope. */
    caller: Caller;
    /** The bytes of a JSON body that was read whole; only with an `Idempotency-Key`. */
    wholeBody: Uint8Array | undefined;
    /** What it was about, where its first parameter does not say so; the project where no key says it. */
    audited: { readonly id: string; readonly project?: string } | undefined;
  }
}

export type { MultipartFile, MultipartValue } from "@fastify/multipart";
export { default as multipart } from "@fastify/multipart";
export type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest, RouteOptions } from "fastify";
export { fastify, LogController } from "fastify";

/** What describes routes: it loads a hundred files, YAML among them, for a document that few starts are asked for. */
export async function loadSwagger(): Promise<
  Pick<
    typeof import("fastify-type-provider-zod"),
    "createJsonSchemaTransform" | "createJsonSchemaTransformObject"
  > & { readonly swagger: typeof import("@fastify/swagger").default }
> {
  const [{ default: swagger }, { createJsonSchemaTransform, createJsonSchemaTransformObject }] =
    await Promise.all([import("@fastify/swagger"), import("fastify-type-provider-zod")]);
  return { swagger, createJsonSchemaTransform, createJsonSchemaTransformObject };
}
