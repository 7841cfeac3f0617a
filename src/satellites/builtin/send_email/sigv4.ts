/**
 * AWS Signature Version 4 of one request, whose path and query are plain.
 *
 *   key = HMAC(HMAC(HMAC(HMAC("AWS4" + secret, date), region), service), "aws4_request")
 *   https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
 */
import { createHash, createHmac } from "node:crypto";

export interface AwsCredentials {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  readonly sessionToken?: string | undefined;
}

export interface SignedRequest {
  readonly method: string;
  readonly url: string;
  /** Lower-case names, all of them signed; `host` is added. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Uint8Array | string;
}

/** The headers given, and those that sign them. `wallMs` is Unix time. */
export function signedByAws(
  { method, url, headers, body }: SignedRequest,
  credentials: AwsCredentials,
  { region, service, wallMs }: { readonly region: string; readonly service: string; readonly wallMs: number },
): Record<string, string> {
  const { host, pathname } = new URL(url);
  const time = `${new Date(wallMs).toISOString().slice(0, 19).replace(/[-:]/g, "")}Z`;
  const date = time.slice(0, 8);
  const { accessKeyId, secretAccessKey, sessionToken } = credentials;
  const own = {
    ...headers,
    "x-amz-date": time,
    ...(sessionToken === undefined ? {} : { "x-amz-security-token": sessionToken }),
  };
  const signed = Object.entries({ ...own, host }).sort(([a], [b]) => (a < b ? -1 : 1));
  const names = signed.map(([name]) => name).join(";");
  const lines = signed.map(([name, value]) => `${name}:${value.trim().replace(/ +/g, " ")}\n`).join("");
  const request = [method, pathname, "", lines, names, sha256(body)].join("\n");
  const scope = `${date}/${region}/${service}/aws4_request`;
  const text = ["AWS4-HMAC-SHA256", time, scope, sha256(request)].join("\n");
  const key = [date, region, service, "aws4_request"].reduce<Buffer>(
    (before, part) => hmac(before, part),
    Buffer.from(`AWS4${secretAccessKey}`),
  );
  const signature = hmac(key, text).toString("hex");
  return {
    ...own,
    authorization: `AWS4-HMAC-SHA256 Credential=${accessKeyId}/${scope}, SignedHeaders=${names}, Signature=${signature}`,
  };
}

function sha256(data: Uint8Array | string): string {
  return createHash("sha256").update(data).digest("hex");
}

function hmac(key: Uint8Array, text: string): Buffer {
  return createHmac("sha256", key).update(text).digest();
}
