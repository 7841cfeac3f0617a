/**
 * Clients of S3, and of stores that speak its protocol. The only import of @aws-sdk/client-s3, an optional peer.
 *
 * A request is made once: the caller repeats it. Checksums are sent only where the protocol requires them, because compatible
 * stores refuse others; bodies are signed with their hash.
 *
 * Limits: 5 s to connect, 60 s without a byte.
 */
import type { Agent } from "node:http";
import type { Agent as TlsAgent } from "node:https";
import type { S3Client, S3ClientConfig } from "@aws-sdk/client-s3";

export type { S3Client, S3ClientConfig } from "@aws-sdk/client-s3";

export type S3Sdk = typeof import("@aws-sdk/client-s3");

/** Milliseconds until a connection is given up. */
export const S3_CONNECT_MS = 5_000;
const IDLE_MS = 60_000;

/** What to do where `loadS3` rejects. */
export const S3_NOT_INSTALLED = "S3 needs the package @aws-sdk/client-s3: npm install @aws-sdk/client-s3";

/** Connections are made by these. */
export interface S3Agents {
  readonly httpAgent: Agent;
  readonly httpsAgent: TlsAgent;
}

/** Rejects where the package is not installed. */
export function loadS3(): Promise<S3Sdk> {
  return import("@aws-sdk/client-s3");
}

/** A client; `given` says which store, and who asks. Destroy it, and the agents. */
export function createS3Client(sdk: S3Sdk, given: S3ClientConfig, agents: S3Agents): S3Client {
  return new sdk.S3Client({
    maxAttempts: 1,
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    requestHandler: {
      ...agents,
      connectionTimeout: S3_CONNECT_MS,
      requestTimeout: IDLE_MS,
      throwOnRequestTimeout: true,
      socketTimeout: IDLE_MS,
    },
    ...given,
  });
}

/** Account, region and endpoint of the environment (`s3_objects.ts`). Keys are used as they are; without them the SDK looks for others. */
export function environmentSettings(env: Readonly<Record<string, string | undefined>>): S3ClientConfig {
  const endpoint = textOf(env["AWS_ENDPOINT_URL_S3"]) ?? textOf(env["AWS_ENDPOINT_URL"]);
  const region = textOf(env["AWS_REGION"]) ?? textOf(env["AWS_DEFAULT_REGION"]);
  const [accessKeyId, secretAccessKey] = [
    textOf(env["AWS_ACCESS_KEY_ID"]),
    textOf(env["AWS_SECRET_ACCESS_KEY"]),
  ];
  const sessionToken = textOf(env["AWS_SESSION_TOKEN"]);
  return {
    followRegionRedirects: true,
    ...(endpoint === undefined ? {} : { endpoint, forcePathStyle: true }),
    ...(region === undefined ? (endpoint === undefined ? {} : { region: "us-east-1" }) : { region }),
    ...(accessKeyId === undefined || secretAccessKey === undefined
      ? {}
      : {
          credentials: {
            accessKeyId,
            secretAccessKey,
            ...(sessionToken === undefined ? {} : { sessionToken }),
          },
        }),
  };
}

function textOf(value: string | undefined): string | undefined {
  return value === "" ? undefined : value;
}
