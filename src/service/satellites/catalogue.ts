/**
 * The catalogue over HTTP: list, describe, register, configure, remove; and what the operator decides.
 *
 *   GET /v1/satellites   GET, PUT, DELETE /v1/satellites/{project}[/{satellite}]
 *   POST /v1/satellites/{project}/{satellite}/verify | approve | disable | enable     (admin, satellites of every project)
 *
 * What a key may not run, and what there is not, are answered alike; vendor satellites without the beta flag with 403.
 */
import { PerigeeError } from "../../errors.ts";
import { fieldFault, noSatellite } from "../../satellites/kinds/catalogue_refusals.ts";
import type { Catalogue, Registry, SatelliteView } from "../../satellites/sdk/catalogue.ts";
import { fromWire } from "../../satellites/sdk/description.ts";
import { parseReference, referenceText, type SatelliteReference } from "../../satellites/sdk/reference.ts";
import type { Page } from "../../tasks/shapes/task_view.ts";
import type { JsonObject } from "../../work/json.ts";
import { type Caller, executionCaller } from "../http/caller.ts";
import { failures } from "../http/description.ts";
import type { FastifyInstance } from "../http/fastify.ts";
import {
  type CatalogueQuery,
  catalogueAnswers,
  catalogueQuery,
  checkedBody,
  type SatelliteBody,
  satelliteAnswer,
  satelliteBody,
} from "./catalogue_schema.ts";
import {
  namespaceParameters,
  referenceOf,
  type SatelliteParameters,
  satelliteParameters,
} from "./satellite_path.ts";

const PATH = "/v1/satellites";
const ONE = `${PATH}/:project/:satellite`;
const TAGS = ["satellites"];
const READ = { scope: "satellites:read", area: "v1" } as const;
const WRITE = { scope: "satellites:write", area: "v1" } as const;
const DECIDE = { scope: "admin", area: "v1" } as const;

export interface CatalogueRoutesContext {
  readonly catalogue: Catalogue & Registry;
}

interface OfSatellite {
  readonly Params: SatelliteParameters;
}

interface OfNamespace {
  readonly Params: { readonly project: string };
}

interface Paged {
  readonly Querystring: CatalogueQuery;
}

/** Reading needs `satellites:read`, changing `satellites:write`, deciding `admin`. */
export function registerCatalogueRoutes(app: FastifyInstance, { catalogue }: CatalogueRoutesContext): void {
  registerReading(app, catalogue);
  registerWriting(app, catalogue);
  registerDecisions(app, catalogue);
}

function registerReading(app: FastifyInstance, catalogue: Catalogue & Registry): void {
  app.get<Paged>(PATH, {
    config: READ,
    schema: {
      summary: "The satellites that the key may run",
      tags: TAGS,
      querystring: catalogueQuery,
      response: { 200: catalogueAnswers.satellites },
    },
    handler: async ({ caller, query }) => listed(catalogue, caller, query),
  });
  app.get<OfNamespace & Paged>(`${PATH}/:project`, {
    config: READ,
    schema: {
      summary: "Those of one namespace; 404 if it has none",
      tags: TAGS,
      params: namespaceParameters,
      querystring: catalogueQuery,
      response: { 200: catalogueAnswers.satellites },
    },
    handler: async ({ caller, params: { project }, query }) => {
      const found = await listed(catalogue, caller, { ...query, namespace: project });
      if (found.satellites.length === 0 && project !== caller.project) throw noSatellite();
      return found;
    },
  });
  app.get<OfSatellite>(ONE, {
    config: READ,
    schema: {
      summary: "A satellite: what it does, and the schemas of its input and config",
      tags: TAGS,
      params: satelliteParameters,
      response: { 200: catalogueAnswers.satellite },
    },
    handler: async ({ caller, params }) =>
      satelliteAnswer(await catalogue.describe(executionCaller(caller), referenceOf(params))),
  });
}

function registerWriting(app: FastifyInstance, catalogue: Catalogue & Registry): void {
  app.put<OfSatellite & { Body: SatelliteBody }>(ONE, {
    config: { ...WRITE, event: "satellite.put" },
    // The owner is checked first: the handler checks the body.
    validatorCompiler: () => (data) => ({ value: data }),
    schema: {
      summary: "Register a satellite that is hosted elsewhere, or configure an existing one",
      description:
        "A new one that is hosted has its secret only in this answer. A change of a community satellite takes it back to `registered`.",
      tags: TAGS,
      params: satelliteParameters,
      body: satelliteBody,
      response: { 200: catalogueAnswers.put, ...failures(404, 409) },
    },
    handler: async (request) => {
      const reference = ownReference(request.caller, request.params);
      request.audited = { id: referenceText(reference) };
      return await put(catalogue, request.caller, reference, checkedBody(request.body));
    },
  });
  app.delete<OfSatellite>(ONE, {
    config: { ...WRITE, event: "satellite.removed" },
    schema: {
      summary: "Remove a satellite; what would run it fails from now on",
      tags: TAGS,
      params: satelliteParameters,
      response: { 200: catalogueAnswers.removed, ...failures(409) },
    },
    handler: async (request) => {
      const reference = ownReference(request.caller, request.params);
      await catalogue.remove(reference.namespace, reference.name);
      request.audited = { id: referenceText(reference) };
      return { satellite: referenceText(reference), deleted: true };
    },
  });
}

/** What the operator decides, its route, and its answers beside the usual. */
const DECISIONS = [
  ["verify", "satellite.verified", "Ask the host of a community satellite, and run its example", [409]],
  ["approve", "satellite.approved", "Let every project run a community satellite that is verified", [409]],
  ["disable", "satellite.disabled", "Let nobody run it", []],
  ["enable", "satellite.enabled", "Make it what it was before it was disabled", []],
] as const;

function registerDecisions(app: FastifyInstance, catalogue: Catalogue & Registry): void {
  for (const [action, event, summary, refusals] of DECISIONS)
    app.post<OfSatellite>(`${ONE}/${action}`, {
      config: { ...DECIDE, event },
      schema: {
        summary,
        tags: TAGS,
        params: satelliteParameters,
        response: { 200: catalogueAnswers.satellite, ...failures(...refusals) },
      },
      handler: async (request) => {
        const reference = referenceOf(request.params);
        request.audited = { id: referenceText(reference) };
        return satelliteAnswer(await catalogue[action](reference));
      },
    });
}

async function listed(
  catalogue: Catalogue & Registry,
  caller: Caller,
  { all, after, ...query }: CatalogueQuery & { readonly namespace?: string },
): Promise<{
  readonly satellites: readonly object[];
  readonly has_more: boolean;
  readonly last_id: string | null;
}> {
  if (all === true && !caller.scopes.has("admin"))
    throw new PerigeeError("forbidden", "the key does not have the scope admin");
  const page = { ...query, ...(after === undefined ? {} : { after }) };
  const { items, hasMore }: Page<SatelliteView> =
    all === true ? await catalogue.all(page) : await catalogue.list(executionCaller(caller), page);
  const last = items.at(-1)?.reference;
  return {
    satellites: items.map(satelliteAnswer),
    has_more: hasMore,
    last_id: last === undefined ? null : `${last.namespace}/${last.name}`,
  };
}

async function put(
  catalogue: Registry,
  caller: Caller,
  { name, namespace }: SatelliteReference,
  body: SatelliteBody,
): Promise<object> {
  try {
    if (body.kind === "configured") {
      const base = parseReference(body.base) ?? { namespace: "", name: "" }; // its form was checked
      const config = body.config as JsonObject; // of a body of JSON
      const wanted = {
        base,
        config,
        ...(body.description === undefined ? {} : { description: body.description }),
      };
      return satelliteAnswer(await catalogue.configure(executionCaller(caller), name, wanted));
    }
    const { kind, url, satellite, renew_secret: isSecretRenewed = false } = body;
    const described = fromWire(satellite);
    if (described.name !== name) throw fieldFault("satellite.name", `must be ${name}, as in the address`);
    const { view, secret } = await catalogue.register(namespace, { kind, url, described, isSecretRenewed });
    return { ...satelliteAnswer(view), ...(secret === undefined ? {} : { secret }) };
  } catch (error) {
    throw asUnprocessable(error);
  }
}

/** What is wrong with a field is 422 over HTTP. */
function asUnprocessable(error: unknown): unknown {
  if (!(error instanceof PerigeeError) || error.code !== "invalid_request") return error;
  return new PerigeeError("usage", error.message, { cause: error, details: error.details });
}

/** Throws `not_found` for every name in another namespace. */
function ownReference(caller: Caller, params: OfSatellite["Params"]): SatelliteReference {
  const reference = referenceOf(params);
  if (reference.namespace !== caller.project) throw noSatellite();
  return reference;
}
