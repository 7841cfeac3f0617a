/**
 * Executions of satellites (interface 4.6, 4.7), and what perigee adds to them: list and cancel.
 *
 * An execution is found only under its own satellite; ids of others, of other satellites and unknown ids answer alike.
 */
import { PerigeeError } from "../../errors.ts";
import type { SatelliteResolver } from "../../satellites/sdk/catalogue.ts";
import type { Executions, ExecutionView } from "../../satellites/sdk/execution.ts";
import type { SatelliteReference } from "../../satellites/sdk/reference.ts";
import { type Caller, executionCaller } from "../http/caller.ts";
import { failures } from "../http/description.ts";
import { etagOf, matches } from "../http/etag.ts";
import type { FastifyInstance } from "../http/fastify.ts";
import type { Idempotency } from "../http/idempotency.ts";
import { onceFor } from "../http/keyed_request.ts";
import { asUnprocessable } from "../shapes/body_fault.ts";
import { unchanged } from "../shapes/infer_schema.ts";
import { pageOf } from "../shapes/list_page.ts";
import {
  executionAnswer,
  executionAnswers,
  executionBody,
  executionParameters,
  executionRequest,
  executionsQuery,
} from "./execution_schema.ts";
import { referenceOf, type SatelliteParameters, satelliteParameters } from "./satellite_path.ts";

const SATELLITE = "/v1/satellites/:project/:satellite";
const ONE = `${SATELLITE}/:execution_id`;
const TAGS = ["satellites"];
const RUN = { scope: "satellites:run", area: "v1" } as const;
const READ = { scope: "satellites:read", area: "v1" } as const;

export interface ExecutionRoutesContext {
  readonly satellites: { readonly executions: Executions; readonly catalogue: SatelliteResolver };
  readonly idempotency: Idempotency;
}

interface OfSatellite {
  readonly Params: SatelliteParameters;
}

interface ById {
  readonly Params: OfSatellite["Params"] & { readonly execution_id: string };
}

interface Paged {
  readonly Querystring: { readonly after?: string; readonly limit: number; readonly satellite?: string };
}

/** /v1/satellites/{project}/{satellite}/ and its executions (interface 2.7, 2.8). */
export function registerExecutionRoutes(app: FastifyInstance, context: ExecutionRoutesContext): void {
  registerRun(app, context);
  registerReads(app, context.satellites.executions);
  registerCancel(app, context.satellites.executions);
}

function registerRun(app: FastifyInstance, { satellites, idempotency }: ExecutionRoutesContext): void {
  app.post<OfSatellite>(SATELLITE, {
    config: { ...RUN, event: "satellite.run", headers: ["Idempotency-Key"] },
    // The body is checked in the handler, which names every field at fault.
    validatorCompiler: () => (data) => ({ value: data }),
    schema: {
      summary: "Run a satellite",
      description:
        "Answers at once, with the execution pending; poll it. Texts in config, and input fields that the satellite marks as secret, may hold `secret://name`. A field that is not as the satellite's schemas say is 422, with every path in `issues`. A POST that is repeated with its `Idempotency-Key` within 24 hours gets the same execution.",
      tags: TAGS,
      params: satelliteParameters,
      body: executionRequest,
      response: { 200: executionAnswers.execution, ...failures(409) },
    },
    handler: async (request, reply) => {
      const { caller, params, body } = request;
      const satellite = referenceOf(params);
      const view = await onceFor(
        idempotency,
        { request, reply },
        {
          about: [satellite.namespace, satellite.name],
          make: (id) => submitted(satellites, caller, { satellite, body, id }),
          find: (id) => satellites.executions.execution(caller.project, id),
        },
      );
      request.audited = { id: view.id };
      return executionAnswer(view);
    },
  });
}

async function submitted(
  { executions, catalogue }: ExecutionRoutesContext["satellites"],
  caller: Caller,
  given: { readonly satellite: SatelliteReference; readonly body: unknown; readonly id: string | undefined },
): Promise<ExecutionView> {
  const { satellite, body, id } = given;
  const checked = executionBody(body);
  // Whether it exists for this caller is checked before the body.
  if (checked instanceof PerigeeError) await catalogue.resolve(executionCaller(caller), satellite);
  if (checked instanceof PerigeeError) throw checked;
  const request = { satellite, ...checked, ...(id === undefined ? {} : { id }) };
  try {
    return await executions.submit(executionCaller(caller), request);
  } catch (error) {
    throw asUnprocessable(error);
  }
}

function registerReads(app: FastifyInstance, executions: Executions): void {
  app.get<ById>(ONE, {
    config: READ,
    schema: {
      summary: "An execution",
      tags: TAGS,
      params: executionParameters,
      response: { 200: executionAnswers.execution, 304: unchanged },
    },
    handler: async ({ caller, params, headers }, reply) => {
      const text = JSON.stringify(executionAnswer(await executionOf(executions, caller, params)));
      const etag = etagOf(text);
      reply.header("etag", etag).header("cache-control", "private, no-cache");
      if (matches(headers["if-none-match"], etag)) return reply.code(304).send();
      return reply.header("content-type", "application/json; charset=utf-8").send(text);
    },
  });
  app.get<Paged>("/v1/executions", {
    config: READ,
    schema: {
      summary: "The executions of the project, newest first",
      description:
        "A page may be shorter than its limit when outputs are large: `has_more` says whether more follow.",
      tags: TAGS,
      querystring: executionsQuery,
      response: { 200: executionAnswers.executions },
    },
    handler: async ({ caller, query: { satellite, ...page } }) => {
      const [namespace = "", name = ""] = satellite?.split("/") ?? [];
      const only = satellite === undefined ? {} : { satellite: { namespace, name } };
      const { items, hasMore } = await executions.list(caller.project, { ...page, ...only });
      return {
        executions: items.map(executionAnswer),
        ...pageOf(items, hasMore),
      };
    },
  });
}

function registerCancel(app: FastifyInstance, executions: Executions): void {
  app.post<ById>(`${ONE}/cancel`, {
    config: { ...RUN, event: "execution.cancelled" },
    schema: {
      summary: "Cancel an execution; what is final stays as it is",
      tags: TAGS,
      params: executionParameters,
      response: { 200: executionAnswers.execution },
    },
    handler: async (request) => {
      const { caller, params } = request;
      const { id } = await executionOf(executions, caller, params);
      request.audited = { id };
      return executionAnswer(await executions.cancel(caller.project, id));
    },
  });
}

/** Throws `not_found` for one of another satellite, too. */
async function executionOf(
  executions: Executions,
  { project }: Caller,
  { execution_id, ...params }: ById["Params"],
): Promise<ExecutionView> {
  const { namespace, name } = referenceOf(params);
  const view = await executions.execution(project, execution_id.toLowerCase());
  if (view.satellite.namespace === namespace && view.satellite.name === name) return view;
  throw new PerigeeError("not_found", "no such execution of this satellite");
}
