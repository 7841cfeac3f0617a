/**
 * The door of fastify and what belongs to it: HTTP in, multipart, schemas to descriptions.
 *
 * To leave: routes are functions of a request and a context; another framework needs this file and `server.ts` anew.
 */
import type { Caller, Scope } from "./caller.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /** What the key must allow; a route without it is open to everybody. */
    readonly scope?: Scope;
  }
  interface FastifyRequest {
    /** Who calls; only on routes with a scope. */
    caller: Caller;
  }
}

export type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
