/** The contract of objects, put to each place. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, it } from "vitest";
import { openObjects } from "../../src/store/objects/open_objects.ts";
import { keepingObjectsContract, objectsContract } from "../../src/testing/objects_contract.ts";
import { describeCounterpart } from "../counterpart.ts";
import { POSTGRES, PostgresServer } from "../postgres_server.ts";
import { type S3Server, startS3 } from "../satellites/builtin/s3_server.ts";

describe("objects of a shared folder", () => {
  const root = mkdtempSync(join(tmpdir(), "perigee-objects-"));
  afterAll(() => rmSync(root, { recursive: true, force: true }));
  const fresh = async () => {
    const { href: url } = pathToFileURL(join(mkdtempSync(join(root, "case-")), "made"));
    return () => openObjects({ url });
  };
  for (const { name, run } of objectsContract(fresh)) it(name, run);
  for (const { name, run } of keepingObjectsContract(async () => (await fresh())())) it(name, run);
});

describe("objects of a bucket", () => {
  let server: S3Server;
  let cases = 0;
  beforeAll(async () => {
    server = await startS3();
  });
  afterAll(() => server?.close());
  const fresh = async () => {
    cases += 1;
    const url = `s3://one/case-${cases}`;
    const env = {
      AWS_ENDPOINT_URL: server.endpoint,
      AWS_ACCESS_KEY_ID: "S3RVER",
      AWS_SECRET_ACCESS_KEY: "S3RVER",
    };
    return () => openObjects({ url, env });
  };
  for (const { name, run } of objectsContract(fresh)) it(name, run); // s3rver does not know If-None-Match
});

describeCounterpart("objects as rows of PostgreSQL", POSTGRES, () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await PostgresServer.start();
  });
  afterAll(() => server?.remove());
  const fresh = async () => {
    const url = await server.freshUrl();
    return () => openObjects({ url });
  };
  for (const { name, run } of objectsContract(fresh)) it(name, run);
  for (const { name, run } of keepingObjectsContract(async () => (await fresh())())) it(name, run);
});
