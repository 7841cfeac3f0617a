/**
 * Clusters over HTTP: submit, check, list, show and cancel.
 *
 *   POST /v1/clusters   POST /v1/clusters/check   GET /v1/clusters   GET /v1/clusters/{id}   POST /v1/clusters/{id}/cancel
 *
 * A declaration is sent as YAML (`application/yaml`, RFC 9512, and the names that it had before), or within JSON. YAML is
 * accepted only on these routes.
 */
import { isUtf8 } from "node:buffer";
import type { Clusters } from "../../clusters/cluster.ts";
import { PerigeeError } from "../../errors.ts";
import { executionCaller } from "../http/caller.ts";
import { failures } from "../http/description.ts";
import { etagOf, matches } from "../http/etag.ts";
import type { FastifyInstance } from "../http/fastify.ts";
import type { Idempotency } from "../http/idempotency.ts";
import { KEY_HEADER } from "../http/json_body.ts";
import { onceFor } from "../http/keyed_request.ts";
import { asUnprocessable } from "../shapes/body_fault.ts";
import { pageQuery, unchanged } from "../shapes/infer_schema.ts";
import { pageOf } from "../shapes/list_page.ts";
import {
  checkAnswer,
  clusterAnswer,
  clusterAnswers,
  clusterBody,
  clusterParameters,
  clusterRequest,
  headAnswer,
} from "./cluster_schema.ts";

const PATH = "/v1/clusters";
const ONE = `${PATH}/:cluster_id`;
const TAGS = ["clusters"];
const RUN = { scope: "satellites:run", area: "v1" } as const;
const READ = { scope: "satellites:read", area: "v1" } as const;
const YAML_TYPES = ["application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"];
/** As JSON escapes take at most six bytes for one, a declaration within JSON fits any bound of JSON bodies. */
const YAML_BYTES_MAX = 256 * 1024;

export interface ClusterRoutesContext {
  readonly clusters: Clusters;
  readonly idempotency: Idempotency;
}

interface ById {
  readonly Params: { readonly cluster_id: string };
}

interface Paged {
  readonly Querystring: { readonly after?: string; readonly limit: number };
}

/** /v1/clusters (interface 2.9); a declaration is JSON or YAML. */
export function registerClusterRoutes(app: FastifyInstance, context: ClusterRoutesContext): void {
  // In a separate scope, so that other routes still refuse YAML.
  app.register(async (scope) => {
    takeYaml(scope);
    registerSubmit(scope, context);
    registerCheck(scope, context.clusters);
  });
  registerReads(app, context.clusters);
  registerCancel(app, context.clusters);
}

function takeYaml(scope: FastifyInstance): void {
  scope.addContentTypeParser(
    YAML_TYPES,
    { parseAs: "buffer", bodyLimit: YAML_BYTES_MAX },
    (request, body: Buffer, done) => {
      if (request.headers[KEY_HEADER] !== undefined) request.wholeBody = body;
      if (isUtf8(body)) done(null, body.toString("utf8"));
      else done(new PerigeeError("invalid_request", "the body is not UTF-8"));
    },
  );
}

const SUBMITTED = {
  // The body is checked in the handler, which names every field at fault.
  validatorCompiler: () => (data: unknown) => ({ value: data }),
};

function registerSubmit(app: FastifyInstance, { clusters, idempotency }: ClusterRoutesContext): void {
  app.post(PATH, {
    ...SUBMITTED,
    config: { ...RUN, event: "cluster.submitted", headers: ["Idempotency-Key"] },
    schema: {
      summary: "Run a cluster",
      description:
        "The body is a declaration in YAML, or JSON with `declaration` and `input`. Answers at once, with the run pending; poll it. A declaration that is wrong is 422, with line, column and path of all that is in `issues`. A POST that is repeated with its `Idempotency-Key` within 24 hours gets the same run.",
      tags: TAGS,
      consumes: ["application/json", ...YAML_TYPES],
      body: clusterRequest,
      response: { 200: clusterAnswers.cluster, ...failures(409) },
    },
    handler: async (request, reply) => {
      const { caller, body } = request;
      const view = await onceFor(
        idempotency,
        { request, reply },
        {
          make: async (id) => {
            const given = { ...clusterBody(body), ...(id === undefined ? {} : { id }) };
            try {
              return await clusters.submit(executionCaller(caller), given);
            } catch (error) {
              throw asUnprocessable(error);
            }
          },
          find: (id) => clusters.cluster(caller.project, id),
        },
      );
      request.audited = { id: view.id };
      return clusterAnswer(view);
    },
  });
}

function registerCheck(app: FastifyInstance, clusters: Clusters): void {
  app.post(`${PATH}/check`, {
    ...SUBMITTED,
    config: RUN,
    schema: {
      summary: "Check a declaration, and run nothing",
      description:
        "200 with all that is wrong, as submitting it would say. Without `input` references to it are taken on trust.",
      tags: TAGS,
      consumes: ["application/json", ...YAML_TYPES],
      body: clusterRequest,
      response: { 200: clusterAnswers.check },
    },
    handler: async ({ caller, body }) => {
      const { declaration, input } = clusterBody(body);
      return checkAnswer(await clusters.check(executionCaller(caller), declaration, input));
    },
  });
}

function registerReads(app: FastifyInstance, clusters: Clusters): void {
  app.get<ById>(ONE, {
    config: READ,
    schema: {
      summary: "A run of a cluster, with its members",
      tags: TAGS,
      params: clusterParameters,
      response: { 200: clusterAnswers.cluster, 304: unchanged },
    },
    handler: async ({ caller, params, headers }, reply) => {
      const view = await clusters.cluster(caller.project, params.cluster_id.toLowerCase());
      const text = JSON.stringify(clusterAnswer(view));
      const etag = etagOf(text);
      reply.header("etag", etag).header("cache-control", "private, no-cache");
      if (matches(headers["if-none-match"], etag)) return reply.code(304).send();
      return reply.header("content-type", "application/json; charset=utf-8").send(text);
    },
  });
  app.get<Paged>(PATH, {
    config: READ,
    schema: {
      summary: "The runs of clusters of the project, newest first",
      tags: TAGS,
      querystring: pageQuery,
      response: { 200: clusterAnswers.clusters },
    },
    handler: async ({ caller, query }) => {
      const { items, hasMore } = await clusters.list(caller.project, query);
      return { clusters: items.map(headAnswer), ...pageOf(items, hasMore) };
    },
  });
}

function registerCancel(app: FastifyInstance, clusters: Clusters): void {
  app.post<ById>(`${ONE}/cancel`, {
    config: { ...RUN, event: "cluster.cancelled" },
    schema: {
      summary: "Cancel a run and what its members have pending; what has ended stays as it is",
      tags: TAGS,
      params: clusterParameters,
      response: { 200: clusterAnswers.cluster },
    },
    handler: async ({ caller, params }) =>
      clusterAnswer(await clusters.cancel(caller.project, params.cluster_id.toLowerCase())),
  });
}
