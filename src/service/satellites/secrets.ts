/**
 * Secrets over HTTP: set, list by name, remove. No answer has a value, and neither has the audit log.
 *
 *   PUT /v1/secrets/{name}   GET /v1/secrets   DELETE /v1/secrets/{name}
 *
 * Writing has a separate scope, so that a key that runs satellites need not be able to replace what they sign in with.
 */
import { NAME } from "../../satellites/sdk/reference.ts";
import type { Secrets, SecretView } from "../../satellites/secrets/secrets.ts";
import { z } from "../../schema.ts";
import type { FastifyInstance } from "../http/fastify.ts";
import { timestamp } from "../shapes/timestamp.ts";

const PATH = "/v1/secrets";
const ONE = `${PATH}/:name`;
const TAGS = ["secrets"];
const WRITING = { scope: "secrets:write", area: "v1" } as const;

/** A name to look for; an invalid one is not found. */
const params = z.strictObject({ name: z.string() });
const newName = z.strictObject({
  name: z
    .string()
    .regex(NAME, 'must be a-z, 0-9 and "-", at most 63 characters')
    .describe("Satellites use it as secret://<name>."),
});
const newValue = z
  .strictObject({
    value: z
      .string("must be text")
      .min(1, "must not be empty")
      .describe("At most 64 KiB; never shown again."),
  })
  .meta({ id: "NewSecretValue" });
const secret = z
  .object({ name: z.string(), created_at: z.iso.datetime(), updated_at: z.iso.datetime() })
  .meta({ id: "Secret" });
const answers = {
  set: z.object({ name: z.string(), set: z.literal(true) }).meta({ id: "SetSecret" }),
  secrets: z.object({ secrets: z.array(secret) }).meta({ id: "SecretList" }),
  removed: z.object({ name: z.string(), deleted: z.literal(true) }).meta({ id: "DeletedSecret" }),
};

interface ByName {
  readonly Params: { readonly name: string };
}

interface NewValue {
  readonly Body: { readonly value: string };
}

/** Values are written and never read: answers have names and times. */
export function registerSecretRoutes(app: FastifyInstance, { secrets }: { readonly secrets: Secrets }): void {
  app.put<ByName & NewValue>(ONE, {
    config: { ...WRITING, event: "secret.set" },
    schema: {
      summary: "Make a secret of the project, or replace its value",
      tags: TAGS,
      params: newName,
      body: newValue,
      response: { 200: answers.set },
    },
    handler: async ({ caller: { project }, params: { name }, body }) => {
      await secrets.set(project, name, body.value);
      return { name, set: true };
    },
  });
  app.get(PATH, {
    config: { scope: "satellites:read", area: "v1" },
    schema: {
      summary: "The names of the project's secrets, and when they were set",
      tags: TAGS,
      response: { 200: answers.secrets },
    },
    handler: async ({ caller }) => ({ secrets: (await secrets.list(caller.project)).map(secretBody) }),
  });
  app.delete<ByName>(ONE, {
    config: { ...WRITING, event: "secret.removed" },
    schema: {
      summary: "Remove a secret; what uses it fails from now on",
      tags: TAGS,
      params,
      response: { 200: answers.removed },
    },
    handler: async ({ caller, params: { name } }) => {
      await secrets.remove(caller.project, name);
      return { name, deleted: true };
    },
  });
}

function secretBody({ name, createdWallMs, updatedWallMs }: SecretView): object {
  return {
    name,
    created_at: timestamp(createdWallMs),
    updated_at: timestamp(updatedWallMs),
  };
}
