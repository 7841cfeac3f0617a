/**
 * The shapes of satellites over HTTP: as schemas for checks and for the description, and as bodies of answers.
 */
import type { SatelliteView } from "../../satellites/sdk/catalogue.ts";
import { wireDescription } from "../../satellites/sdk/description.ts";
import { NAME_PATTERN, referenceText } from "../../satellites/sdk/reference.ts";
import { namedErrors, z } from "../../schema.ts";
import { bodyFault } from "../shapes/body_fault.ts";
import { pageFields } from "../shapes/list_page.ts";

/** What a PUT makes: one that is hosted, or one that is based on another. */
export type SatelliteBody =
  | {
      readonly kind: "custom" | "community";
      readonly url: string;
      readonly satellite: unknown;
      readonly renew_secret?: boolean | undefined;
    }
  | {
      readonly kind: "configured";
      readonly base: string;
      readonly config: Readonly<Record<string, unknown>>;
      readonly description?: string | undefined;
    };

const configured = z.strictObject({
  kind: z.literal("configured"),
  base: z
    .string()
    .regex(new RegExp(`^satellite/${NAME_PATTERN}/${NAME_PATTERN}$`), "must be satellite/<namespace>/<name>")
    .describe("satellite/<namespace>/<name>, one that the key may run."),
  config: z
    .record(z.string(), z.unknown(), "must be an object")
    .describe("Settings that are fixed. They win over those of a caller, and no answer shows them."),
  description: z.string().max(4_096).optional().describe("Default: that of the base."),
});

/** For the description; the parts of a satellite are checked by the catalogue, which names the field. */
export const satelliteBody: z.ZodType<SatelliteBody> = z
  .discriminatedUnion("kind", [
    z.strictObject({
      kind: z.enum(["custom", "community"]),
      url: z
        .string()
        .min(1)
        .max(2_048)
        .describe("Where perigee orbit serve answers: https, or this machine."),
      satellite: wireDescription.describe("As perigee orbit describe prints it."),
      renew_secret: z.boolean().optional().describe("Make another secret; the old one signs nothing more."),
    }),
    configured,
  ])
  .meta({ id: "NewSatellite" });

const jsonSchema = z.record(z.string(), z.unknown());
const shown = {
  satellite: z.string().describe("satellite/<namespace>/<name>"),
  kind: z.enum(["vendor", "community", "custom", "configured"]),
  state: z.enum(["registered", "verified", "approved", "disabled"]),
  description: z.string(),
  input_schema: jsonSchema.describe("JSON Schema 2020-12."),
  config_schema: jsonSchema.describe("JSON Schema 2020-12, without the settings that are fixed."),
  output_schema: jsonSchema.nullable(),
  is_repeatable: z.union([z.boolean(), z.literal("by_input")]),
  base: z
    .object({ satellite: z.string(), fixed_config: z.array(z.string()) })
    .nullable()
    .describe("Of a configured one: its base, and the names of settings that are fixed."),
  example: z.record(z.string(), z.unknown()).nullable(),
  url: z.string().nullable().describe("Where it is hosted; shown to its own project and the operator."),
};
const satellite = z.object(shown).meta({ id: "Satellite" });

/** Named schemas of answers. */
export const catalogueAnswers: {
  readonly satellite: z.ZodType;
  readonly put: z.ZodType;
  readonly satellites: z.ZodType;
  readonly removed: z.ZodType;
} = {
  satellite,
  put: z
    .object({
      ...shown,
      secret: z.string().optional().describe("Signs requests to the host. Shown this once."),
    })
    .meta({ id: "PutSatellite" }),
  satellites: z.object({ satellites: z.array(satellite), ...pageFields }).meta({ id: "SatelliteList" }),
  removed: z.object({ satellite: z.string(), deleted: z.literal(true) }).meta({ id: "DeletedSatellite" }),
};

export interface CatalogueQuery {
  readonly after?: string | undefined;
  readonly limit: number;
  readonly all?: boolean | undefined;
}

export const catalogueQuery: z.ZodType<CatalogueQuery> = z.strictObject({
  after: z.string().min(1).max(127).optional().describe("`last_id` of the page before."),
  limit: z.coerce.number().int().min(1).max(100).default(100),
  all: z
    .enum(["true", "false"])
    .transform((text) => text === "true")
    .optional()
    .describe("Those of all projects, in every state; needs the scope admin."),
});

/** Throws `usage` with `details.param` for a body of another form. */
export function checkedBody(body: unknown): SatelliteBody {
  const parsed = satelliteBody.safeParse(body, namedErrors);
  if (parsed.success) return body as SatelliteBody; // as it arrived: defaults are the catalogue's
  throw bodyFault(parsed.error);
}

/** What one looks like in answers; no secret and no fixed value. */
export function satelliteAnswer(view: SatelliteView): object {
  const { reference, kind, state, description, base } = view;
  return {
    ...{ satellite: referenceText(reference), kind, state, description },
    input_schema: view.inputSchema,
    config_schema: view.configSchema,
    output_schema: view.outputSchema ?? null,
    is_repeatable: view.isRepeatable,
    base:
      base === undefined
        ? null
        : { satellite: referenceText(base.reference), fixed_config: base.fixedConfig },
    example: view.example ?? null,
    url: view.url ?? null,
  };
}
