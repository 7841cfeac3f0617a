/**
 * Gemini's interactions in the deferred tier, as a part of its fake: create, get, cancel and delete. Wire: the types of @google/genai 2.32.0.
 *
 *   queued -> in_progress -> completed | incomplete | failed      -> cancelled
 *
 * Each is a batch of one request in the account and its book. Nothing lists them.
 */
import type { FakeAccount } from "./account.ts";
import { type FakeAnswer, type FakeReply, isObject, type JsonObject, jsonReply, objectOf } from "./fake.ts";
import { refuseGemini } from "./gemini_answers.ts";
import { type Asked, answerTo, askedOf } from "./prompt.ts";
import { idOf } from "./results.ts";
import { itemOf, type Run } from "./run.ts";

export interface InteractionOptions {
  /** The tier that answers name and are billed by. Default `deferred`. */
  readonly servedTier?: "deferred" | "standard";
  /** How an answered interaction ends; undefined: by its limit and its fate. */
  readonly statusOf?: (prompt: string) => string | undefined;
}

export class GeminiInteractions {
  readonly #account: FakeAccount;
  readonly #options: InteractionOptions;

  constructor(account: FakeAccount, options: InteractionOptions = {}) {
    this.#account = account;
    this.#options = options;
  }

  /** Undefined for a path of others. */
  handle(method: string, path: string, key: string, body: Uint8Array): FakeAnswer | undefined {
    const found = /^\/v1(?:beta|alpha)?\/interactions(?:\/([^/]+))?(\/cancel)?$/.exec(path);
    if (found === null) return undefined;
    const [, id, verb = ""] = found;
    const account = this.#account;
    const ofRun = (then: (run: Run) => FakeReply) => (): FakeReply => {
      const run = account.find(id ?? "", key);
      return run === undefined ? refuseGemini(404, "not_found", `no interaction ${id}`) : then(run);
    };
    const shown = (run: Run): FakeReply => jsonReply(200, this.#view(run));
    const cancelled = (run: Run): FakeReply => {
      account.cancel(run);
      return shown(run);
    };
    const deleted = (run: Run): FakeReply => {
      account.delete(run);
      return jsonReply(200, {});
    };
    switch (`${method} ${id === undefined ? "" : "ID"}${verb}`) {
      case "POST ":
        return account.call("create", key, () => this.#create(key, body));
      case "GET ID":
        return account.call("get", key, ofRun(shown));
      case "POST ID/cancel":
        return account.call("cancel", key, ofRun(cancelled));
      case "DELETE ID":
        return account.call("delete", key, ofRun(deleted));
      default:
        return refuseGemini(404, "not_found", `${method} ${path}`);
    }
  }

  #create(key: string, body: Uint8Array): FakeReply {
    const request = objectOf(body);
    const asked = request && interactionAsked(request);
    if (asked === undefined || asked.fate.isInvalid)
      return refuseGemini(400, "invalid_request_error", "not a deferred interaction");
    const id = idOf("v1_", this.#account.behaviour.seed, this.#account.nextBatch);
    const { servedTier = "deferred" } = this.#options;
    const tier = servedTier === "deferred" ? servedTier : "realtime";
    const run = this.#account.create({ id, key, items: [itemOf(asked, id, 0)], tier });
    return "status" in run ? run : jsonReply(200, this.#view(run));
  }

  #view(run: Run): object {
    const { nowMs } = this.#account;
    const [item] = run.items;
    const status = this.#status(run);
    const isAnswered = run.stateAt(nowMs) === "completed";
    const failed = status === "failed" ? { errors: [{ code: "500", message: "it failed" }] } : {};
    const isBilled = run.good > 0 && item !== undefined && run.isEndedAt(nowMs);
    return {
      id: run.id,
      object: "interaction",
      status,
      model: item?.model,
      service_tier: this.#options.servedTier ?? "deferred",
      created: new Date(run.createdMs).toISOString(),
      updated: new Date(nowMs).toISOString(),
      ...failed,
      ...(isBilled ? { usage: usageOf(item) } : {}),
      ...(isAnswered && isBilled ? { steps: stepsOf(item) } : {}),
    };
  }

  #status(run: Run): string {
    const state = this.#account.shown(run);
    if (typeof state !== "string") return state.name;
    const [item] = run.items;
    switch (state) {
      case "validating":
        return "queued";
      case "running":
      case "finalizing":
      case "cancelling":
        return "in_progress";
      case "cancelled":
        return state;
      case "completed":
        if (item === undefined || this.#account.statusOf(run, item) !== 200) return "failed";
        return this.#options.statusOf?.(item.prompt) ?? (item.isCut ? "incomplete" : state);
      default:
        return "failed";
    }
  }
}

/** What is asked by a create; undefined where it is not a request of the deferred tier. */
function interactionAsked(request: JsonObject): Asked | undefined {
  const { model, input, service_tier: tier, background, store, generation_config: config } = request;
  const isDeferred = tier === "deferred" && background === true && store === true;
  if (typeof model !== "string" || !Array.isArray(input) || !isDeferred) return undefined;
  const texts = input.map(textOf);
  const system = typeof request["system_instruction"] === "string" ? request["system_instruction"] : "";
  const characters = texts.reduce((sum, text) => sum + text.length, system.length);
  const limit = isObject(config) ? config["max_output_tokens"] : undefined;
  return askedOf(model, texts.at(-1) ?? "", characters, typeof limit === "number" ? limit : undefined);
}

function textOf(step: unknown): string {
  const content = isObject(step) ? step["content"] : undefined;
  if (!Array.isArray(content)) return "";
  return content
    .map((part) => (isObject(part) && typeof part["text"] === "string" ? part["text"] : ""))
    .join("");
}

function stepsOf({ prompt }: Asked): object[] {
  return [
    { type: "thought", signature: "c2ln" },
    { type: "model_output", content: [{ type: "text", text: answerTo(prompt) }] },
  ];
}

/** A quarter of the output is thoughts, as in `generateContent` here. */
function usageOf({ inputTokens, outputTokens }: Asked): object {
  const thoughts = Math.floor(outputTokens / 4);
  return {
    total_input_tokens: inputTokens,
    total_output_tokens: outputTokens - thoughts,
    total_thought_tokens: thoughts,
    total_cached_tokens: 0,
    total_tokens: inputTokens + outputTokens,
  };
}
