/** The description of all routes as it is served: forms, errors, and each schema once. */
import { describe, expect, it } from "vitest";
import { servedDocument } from "../../src/service/http/description_document.ts";
import { openWhole } from "./whole.ts";

interface Document {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, unknown>> };
}

interface Operation {
  readonly requestBody?: {
    readonly content: Readonly<Record<string, { readonly schema: { readonly properties: object } }>>;
  };
  readonly responses: Readonly<Record<string, { readonly content?: Readonly<Record<string, unknown>> }>>;
}

async function described(): Promise<Document> {
  const { text } = await (await openWhole()).call("GET", "/openapi.json", { key: "" });
  return JSON.parse(text) as Document;
}

describe("the description", () => {
  it("has the form of both uploads", async () => {
    const { paths } = await described();
    const fieldsOf = (path: string, method: string): string[] => {
      const form = paths[path]?.[method]?.requestBody?.content["multipart/form-data"];
      return Object.keys(form?.schema.properties ?? {});
    };
    expect(fieldsOf("/v0/files/{file_name}", "put")).toEqual(["file"]);
    expect(fieldsOf("/v1/files", "post")).toEqual(["file", "purpose"]);
  });

  it("has all errors as JSON, those of downloads as well", async () => {
    const { paths } = await described();
    const types = Object.values(paths).flatMap((methods) =>
      Object.values(methods).flatMap(({ responses }) =>
        Object.entries(responses)
          .filter(([status, { content }]) => Number(status) >= 400 && content !== undefined)
          .flatMap(([, { content = {} }]) => Object.keys(content)),
      ),
    );
    expect([...new Set(types)]).toEqual(["application/json"]);
    const download = paths["/v0/files/{file_id}/content"]?.["get"]?.responses["200"]?.content ?? {};
    expect(Object.keys(download)).toEqual(["application/jsonl", "application/octet-stream"]);
  });

  it("has each schema once, and each that it refers to", async () => {
    const { components, paths } = await described();
    const names = Object.keys(components.schemas);
    expect(names.filter((name) => name.endsWith("Input"))).toEqual([]);
    const texts = Object.values(components.schemas).map((schema) => JSON.stringify(schema));
    expect(new Set(texts).size).toBe(texts.length);
    const found = JSON.stringify([paths, components]).matchAll(/#\/components\/schemas\/(\w+)/g);
    expect([...new Set(Array.from(found, ([, name]) => name))].sort()).toEqual([...names].sort());
  });

  it("keeps both sides of a schema that are used and differ", () => {
    const at = (name: string): object => ({ $ref: `#/components/schemas/${name}` });
    const operation = {
      requestBody: { content: { "application/json": { schema: at("AInput") } } },
      responses: { 200: { content: { "application/json": { schema: at("A") } } } },
    };
    const schemas = {
      ...{ A: { required: ["b"], b: at("B") }, AInput: { b: at("BInput") } },
      ...{ B: { type: "string" }, BInput: { type: "string" }, C: {}, CInput: {} },
    };
    const made = { paths: { "/a": { post: operation, head: operation } }, components: { schemas } };
    expect(servedDocument(made)).toEqual({
      paths: { "/a": { post: operation } },
      components: { schemas: { A: schemas.A, AInput: { b: at("B") }, B: schemas.B } },
    });
  });
});
