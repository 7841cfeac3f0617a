/**
 * The door of fastify and what belongs to it: HTTP in, multipart, schemas to descriptions.
 *
 * To leave: routes are functions of a request and a context; another framework needs this file and `server.ts` anew.
 */
export type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
