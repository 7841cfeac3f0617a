/**
 * Logs for Elasticsearch and OpenSearch: `_bulk` with `create`, which data streams need and which recognises repeats by `_id`.
 *
 * A 200 may hold errors of items: 409 is an entry of an earlier attempt, only 429 and 5xx are sent again, the others are refused.
 * Documents have the names of the Elastic Common Schema (`@timestamp`, `message`, `log.level`) and `attributes`.
 *
 * Sources, 2026-11-21: elastic.co/docs/api/doc/elasticsearch/operation/operation-bulk,
 * docs.opensearch.org/latest/api-reference/document-apis/bulk, elastic.co/docs/reference/elasticsearch/rest-apis/common-options
 * (filter_path). Gzip is taken.
 */
import { arrayOf, countOf, objectOf, parseJson, stringOf } from "../../../providers/json.ts";
import { shortCode } from "../exchange/exchange.ts";
import { baseOf } from "../exchange/receiver_fields.ts";
import { ALL_TAKEN, basic, type HttpLogReceiver, MIB, type Numbered, type Verdict } from "./receiver.ts";

const FILTER = "filter_path=errors,items.*.status,items.*.error.type";

export interface ElasticsearchConfig {
  readonly url: string;
  readonly index: string;
  readonly api_key?: string | undefined;
  readonly username?: string | undefined;
  readonly password?: string | undefined;
}

/** The result of each entry; one that exists already counts as taken. */
export function elasticsearch(config: ElasticsearchConfig): HttpLogReceiver {
  const { url, index, api_key, username, password } = config;
  return {
    bounds: { entries: 1_000, bytes: MIB, messageBytes: 512 * 1024 },
    answerBytesMax: 2 * MIB,
    encode: (batch) => ({
      url: `${baseOf(url)}/${encodeURIComponent(index)}/_bulk?${FILTER}`,
      headers: {
        "content-type": "application/x-ndjson",
        ...(api_key === undefined ? {} : { authorization: `ApiKey ${api_key}` }),
        ...(username === undefined ? {} : { authorization: basic(username, password ?? "") }),
      },
      body: batch.map(linesOf).join(""),
    }),
    read: ({ body, isWhole }, entries) => (isWhole ? verdictOf(body, entries) : undefined),
    reason: ({ body }) => objectOf(objectOf(parseJson(body))?.["error"])?.["type"],
  };
}

function linesOf({ id, entry: { wallMs, level, message, attributes } }: Numbered): string {
  const document = {
    "@timestamp": new Date(wallMs).toISOString(),
    message,
    log: { level },
    ...(Object.keys(attributes).length === 0 ? {} : { attributes }),
  };
  return `${JSON.stringify({ create: { _id: id } })}\n${JSON.stringify(document)}\n`;
}

function verdictOf(body: Uint8Array, entries: number): Verdict | undefined {
  const answer = objectOf(parseJson(body));
  if (answer?.["errors"] === false) return ALL_TAKEN;
  const items = arrayOf(answer?.["items"]);
  if (items?.length !== entries) return undefined;
  const again: number[] = [];
  const rejected: { index: number; reason: string }[] = [];
  for (const [index, item] of items.entries()) {
    const result = objectOf(Object.values(objectOf(item) ?? {})[0]);
    const status = countOf(result?.["status"]) ?? 0;
    if ((status >= 200 && status < 300) || status === 409) continue;
    const type = shortCode(stringOf(objectOf(result?.["error"])?.["type"]));
    if (status === 429 || status >= 500) again.push(index);
    else rejected.push({ index, reason: type ?? `http_${status}` });
  }
  return { again, rejected };
}
