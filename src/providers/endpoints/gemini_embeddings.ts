/**
 * The codec of Gemini's embeddings: `POST {base}/{version}/models/{model}:batchEmbedContents`, also for one input, as @google/genai
 * 2.32 does (`embedContent` of its Gemini API client).
 *
 *   input                                    one request for each text
 *   dimensions                               outputDimensionality
 *   task_type, title, auto_truncate          taskType, title, autoTruncate of each request
 *   encoding_format "base64", token ids      refused: Gemini answers numbers, and reads only texts
 *   user                                     left out, with a warning
 *
 * The answer: `embeddings[].values`, in the order of the requests; `usageMetadata.promptTokenCount` where a model reports it.
 */
import { suggestion } from "../../nearest.ts";
import type { EndpointRequest, JsonValue } from "../../work/request.ts";
import { success } from "../endings.ts";
import { errorFacts } from "../error_body.ts";
import { isHtml } from "../exchange.ts";
import { answerJson, arrayOf, countOf, nameOf, objectOf } from "../json.ts";
import type { Decoded, Encoded, Provider, ProviderSettings, WireAnswer, WireHead } from "../provider.ts";
import { itemFailure, refusalInside, refusalOf, vectorsMissing } from "../refusals.ts";
import { refusalOfDropped } from "../unsupported.ts";
import { bounded } from "../usage.ts";
import { cutEmbeddings } from "./cut_embeddings.ts";
import { joinBounds } from "./joins.ts";
import { wrongEndpoint } from "./openai_endpoints.ts";

/** Members of an item, and what Gemini calls them. */
const NAMES: Readonly<Record<string, string>> = {
  dimensions: "outputDimensionality",
  task_type: "taskType",
  taskType: "taskType",
  title: "title",
  auto_truncate: "autoTruncate",
  autoTruncate: "autoTruncate",
};
const KNOWN = ["input", "encoding_format", "user", ...Object.keys(NAMES)];

/** `head` and `resource` are of the model: the second is its name in Gemini's form, `models/<name>`. */
export function geminiEmbeddings(
  settings: ProviderSettings,
  head: (model: string) => WireHead,
  resource: (model: string) => string,
): Provider {
  return {
    settings,
    head,
    encode: ({ endpoint }, model, isCheckOnly = false) =>
      endpoint?.kind === "embedding"
        ? encode(endpoint, { settings, model, resource: resource(model) }, isCheckOnly)
        : wrongEndpoint("embedding"),
    decode: (answer) => decode(answer, settings.name),
    limits: () => undefined,
  };
}

interface Destination {
  readonly settings: ProviderSettings;
  readonly model: string;
  readonly resource: string;
}

function encode({ body, texts, tokenIds }: EndpointRequest, to: Destination, isCheckOnly: boolean): Encoded {
  const { name } = to.settings;
  if (tokenIds > 0) return unsupported(`input: ${name} reads texts, not token ids`);
  const format = body["encoding_format"];
  if (format !== undefined && format !== null && format !== "float")
    return unsupported(`encoding_format: ${name} answers numbers, got ${JSON.stringify(format)}`);
  const shared: Record<string, JsonValue> = {};
  for (const [member, value] of Object.entries(body)) {
    if (!KNOWN.includes(member)) return unknown(member);
    const own = NAMES[member];
    if (own !== undefined && value !== null) shared[own] = value;
  }
  const dropped = body["user"] === undefined || body["user"] === null ? [] : ["user"];
  const refusal = refusalOfDropped(dropped, to.model, to.settings);
  if (refusal !== undefined) return refusal;
  const joins = {
    open: OPEN,
    close: CLOSE,
    listOpen: OPEN,
    listClose: CLOSE,
    ...joinBounds(to.settings, body["dimensions"], undefined),
    hasOpenaiAnswers: false,
  };
  const one = texts.length === 1 ? { joins } : {};
  if (isCheckOnly) return { ok: true, body: "", dropped, ...one };
  const requests = texts.map((text) => ({
    model: to.resource,
    content: { parts: [{ text }] },
    ...shared,
  }));
  return {
    ok: true,
    body: `${OPEN}${requests.map((each) => JSON.stringify(each)).join(",")}${CLOSE}`,
    dropped,
    ...one,
  };
}

const OPEN = '{"requests":[';
const CLOSE = "]}";

function unknown(member: string): Encoded {
  const hint = suggestion(member, KNOWN);
  const expected = hint === "" ? `expected ${KNOWN.join(", ")}` : hint;
  const message = `${member} is not a known member of an embedding; ${expected}`;
  return { ok: false, code: "invalid_config", message };
}

function unsupported(message: string): Encoded {
  return { ok: false, code: "unsupported_request", message };
}

function decode(answer: WireAnswer, name: string): Decoded {
  if (answer.status < 200 || answer.status > 299) return refusalOf(name, answer);
  const cut = isHtml(answer) ? undefined : cutEmbeddings(answer.body, "values");
  const body = objectOf(cut?.rest);
  if (cut === undefined || body === undefined) {
    const isJson = objectOf(answerJson(answer)) !== undefined;
    const what = isJson ? "no embeddings" : "no JSON object";
    return itemFailure("ambiguous", "invalid_response", `${name} answered ${what}`);
  }
  const input = countOf(objectOf(body["usageMetadata"])?.["promptTokenCount"]);
  const usage = input === undefined ? undefined : bounded(input, 0, 0, 0, 0);
  const error = body["error"] ?? undefined;
  if (error !== undefined) return refusalInside(name, answer, errorFacts(error), usage);
  const places = (arrayOf(body["embeddings"]) ?? []).map((each) => countOf(objectOf(each)?.["values"]));
  const values = places.flatMap((place) => (place === undefined ? [] : (cut.values[place] ?? [])));
  if (values.length === 0 || values.length !== places.length)
    return vectorsMissing(name, values.length, usage);
  const facts = { requestId: nameOf(answer.headers["x-request-id"]), text: "", usage };
  return { ...success(facts, "stop"), output: { type: "embedding", values } };
}
