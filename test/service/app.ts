/**
 * The service's routes without its server: a key is a project's name, errors answer with their codes.
 */
import { PerigeeError } from "../../src/errors.ts";
import type { ServiceContext } from "../../src/service/context.ts";
import { createTransfers } from "../../src/service/files/transfers.ts";
import type { Caller } from "../../src/service/http/caller.ts";
import { type FastifyInstance, fastify } from "../../src/service/http/fastify.ts";
import { validatorCompiler } from "../../src/service/http/validation.ts";

const STATUSES: Readonly<Record<string, number>> = {
  usage: 422,
  invalid_request: 400,
  unauthenticated: 401,
  not_found: 404,
  conflict: 409,
  too_large: 413,
  too_many: 429,
  duplicate_key: 422,
  unsupported_encoding: 415,
  disk_full: 507,
};

export type Register = (app: FastifyInstance, context: ServiceContext) => void;

export function bareApp(
  context: Partial<ServiceContext>,
  ...registers: readonly Register[]
): FastifyInstance {
  const app = fastify({
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 768 },
    bodyLimit: Number.MAX_SAFE_INTEGER,
    forceCloseConnections: true, // clients keep theirs alive
  });
  app.setValidatorCompiler(validatorCompiler);
  app.setSerializerCompiler(() => (body) => JSON.stringify(body));
  app.decorateRequest("caller", undefined as unknown as Caller);
  app.addHook("onRequest", async (request) => {
    if (request.routeOptions.config.scope === undefined) return;
    const project = /^Bearer (\w+)$/.exec(request.headers.authorization ?? "")?.[1];
    if (project === undefined) throw new PerigeeError("unauthenticated", "no key");
    request.caller = { keyId: project, project, scopes: new Set(), isBeta: false };
  });
  app.setErrorHandler((error: Error & { statusCode?: number; validation?: unknown }, _request, reply) => {
    if (error instanceof PerigeeError) {
      const { code, message, details } = error;
      return reply.code(STATUSES[code] ?? 500).send({ error: { code, message, details } });
    }
    const status = error.validation === undefined ? (error.statusCode ?? 500) : 422;
    return reply.code(status).send({ error: { code: "framework", message: error.message } });
  });
  const transfers = createTransfers();
  for (const register of registers)
    register(app, { publicUrl: () => "http://perigee.test", transfers, ...context } as ServiceContext);
  return app;
}
