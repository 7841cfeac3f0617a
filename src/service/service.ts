/**
 * The service over a context: a server with all routes, as one that listens, as a handler and as a plugin.
 *
 *   made -> listening or mounted -> draining (nothing new is accepted, what is under way ends) -> closed
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { publicHolds } from "../engine/lanes/run_holds.ts";
import type { Spending } from "../tasks/usage/spending.ts";
import type { ServiceContext } from "./context.ts";
import { registerFileRoutes } from "./files/files.ts";
import { registerFrontRoutes } from "./front/front.ts";
import { registerDescription, registerDescriptionRoutes } from "./http/description.ts";
import type { Unready } from "./http/errors.ts";
import type { FastifyInstance } from "./http/fastify.ts";
import { checkAddress, createServer, handlerOf, type ServerOptions } from "./http/server.ts";
import { registerInferRoutes } from "./infer/infer.ts";
import { registerMarginRoutes } from "./infer/margin.ts";
import { registerOutputRoutes } from "./infer/output.ts";
import { registerQuoteRoutes } from "./infer/quote.ts";
import { registerUsageRoutes } from "./infer/usage.ts";
import { registerOpenAiRoutes } from "./openai/openai_batches.ts";
import { type FleetState, registerFleetRoute } from "./operate/fleet_state.ts";
import { registerHealthRoutes } from "./operate/health.ts";
import type { Observation } from "./operate/observation.ts";
import { registerCatalogueRoutes } from "./satellites/catalogue.ts";
import { registerClusterRoutes } from "./satellites/clusters.ts";
import { registerExecutionRoutes } from "./satellites/executions.ts";
import { registerSecretRoutes } from "./satellites/secrets.ts";
import { registerProviderEvents } from "./webhooks/provider_events.ts";
import { registerWebhookRoutes } from "./webhooks/webhook_routes.ts";

/** What is under way when the service closes has so long to end. */
const DRAIN_MS = 30_000;

export interface HttpServiceOptions extends Omit<ServerOptions, "clock"> {
  readonly context: ServiceContext;
  readonly spending: Pick<Spending, "usage" | "days" | "projects">;
  readonly version: string;
  /** Why nothing can be recorded; undefined when it can. */
  readonly unready?: () => Promise<Unready | undefined>;
  /** That the service is part of. */
  readonly fleet?: (() => FleetState) | undefined;
  /** Absent: no operator page, no metrics, no log. */
  readonly observation?: Observation | undefined;
  /** Receives every request that arrives through the handler or the plugin, before it is answered. */
  readonly onMounted?: (request: IncomingMessage) => void;
}

export interface ListenOptions {
  /** Default 127.0.0.1. Another address than loopback needs a TLS proxy in front: `isBehindProxy`. */
  readonly host?: string;
  /** 0 takes a free one. Default 8080. */
  readonly port?: number;
}

/** A service; `listen`, `handler` and `plugin` may be used together. */
export interface HttpService {
  /** Resolves with the address when it answers. Throws `usage` for an address that would show keys to others. */
  listen(options?: ListenOptions): Promise<string>;
  /** For `node:http` and for Express, mounted before anything that reads bodies. */
  readonly handler: (request: IncomingMessage, response: ServerResponse) => void;
  /** For Fastify: `app.register(service.plugin, { prefix: "/perigee" })`. */
  readonly plugin: (app: FastifyInstance) => Promise<void>;
  /** Its server, for `inject`. */
  readonly app: FastifyInstance;
  /** Calls stop waiting for tasks with a deadline. */
  release(): void;
  /** Ends what is under way, at most 30 s. May be called twice. */
  close(): Promise<void>;
}

/** Resolves when every route is registered; nothing listens yet. */
export async function createHttpService(options: HttpServiceOptions): Promise<HttpService> {
  const { context, version, observation } = options;
  const { app, close, destroyConnections } = createServer({
    ...options,
    clock: context.clock,
    ...observation?.serverOptions,
  });
  let isReady = true;
  const description = registerDescription(app, version);
  const unready = async (): Promise<Unready | undefined> =>
    isReady ? options.unready?.() : { code: "closed", message: "the service is closing" };
  registerHealthRoutes(app, unready, () => publicHolds(context.engine.holds()), options.fleet);
  registerInferRoutes(app, context);
  registerFileRoutes(app, context);
  registerOutputRoutes(app, context);
  registerOpenAiRoutes(app, context);
  const release = registerFrontRoutes(app, context);
  registerQuoteRoutes(app, context);
  registerUsageRoutes(app, context.clock, options.spending);
  registerMarginRoutes(app, context.clock, options.spending);
  registerWebhookRoutes(app, context);
  registerProviderEvents(app, {
    clock: context.clock,
    batches: context.engine.batches,
    secrets: context.eventSecrets ?? new Map(),
  });
  registerExecutionRoutes(app, context);
  registerCatalogueRoutes(app, context.satellites);
  registerSecretRoutes(app, context.satellites);
  registerClusterRoutes(app, { ...context.satellites, idempotency: context.idempotency });
  observation?.register(app);
  if (options.fleet !== undefined) registerFleetRoute(app, options.fleet);
  registerDescriptionRoutes(app, description);
  await app.ready();
  const route = handlerOf(app);
  const handler: HttpService["handler"] = (request, response) => {
    options.onMounted?.(request);
    route(request, response);
  };
  return {
    ...{ app, handler, release },
    plugin: (outer) => mount(outer, handler),
    listen: async ({ host = "127.0.0.1", port = 8080 } = {}) => {
      checkAddress(host, options.isBehindProxy === true);
      await app.listen({ host, port });
      return addressOf(app.server.address() as AddressInfo); // a TCP server's
    },
    close: async () => {
      isReady = false;
      const timer = context.clock.timer(DRAIN_MS, destroyConnections, { keepsAlive: false });
      await close();
      timer.cancel();
    },
  };
}

/** All requests below the prefix, unread, to the service's own server: its rules are not those of the outer one. */
async function mount(outer: FastifyInstance, handler: HttpService["handler"]): Promise<void> {
  outer.removeAllContentTypeParsers();
  outer.addContentTypeParser("*", (_request, _payload, done) => done(null));
  const forward = { method: [...outer.supportedMethods], exposeHeadRoute: false };
  for (const url of ["/", "/*"]) {
    outer.route({
      ...forward,
      url,
      handler: (request, reply) => {
        reply.hijack();
        const { raw } = request;
        const { url: originalUrl = "/" } = raw;
        const url = originalUrl.slice(outer.prefix.length).replace(/^(?=\?|$)/, "/");
        Object.assign(raw, { originalUrl, url }); // as Express does it
        handler(raw, reply.raw);
      },
    });
  }
}

function addressOf({ address, family, port }: AddressInfo): string {
  return `http://${family === "IPv6" ? `[${address}]` : address}:${port}`;
}
