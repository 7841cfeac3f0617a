/**
 * One attempt of batch inference: a prompt, a list of prompts, or a file of them, through the engine.
 *
 *   prompts -> task (its id follows from the execution's) -> final -> output
 *   file    -> file of requests (likewise) -> task -> final -> file of answers -> output
 *
 * An attempt after a crash finds its task by that id and waits for it; nothing is requested twice. The task has the time that
 * the execution has left, so the price factor is that of its sla.
 *
 * Limits: 10,000 prompts in a list; answers above 512 KiB become a file.
 */
import { hasCode, ifFound, PerigeeError } from "../../../errors.ts";
import { moneyBody } from "../../../price/money.ts";
import type { FileView } from "../../../tasks/files/files.ts";
import type { TaskView } from "../../../tasks/shapes/task_view.ts";
import { derivedId } from "../../../work/derived_id.ts";
import type { JsonObject } from "../../../work/json.ts";
import { SLA_MINUTES_MAX } from "../../../work/sla.ts";
import type { TaskObject } from "../../../work/task.ts";
import type { SatelliteCall } from "../../sdk/satellite.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";
import { untilFinal } from "../../sdk/until_final.ts";
import { referenceOf } from "../files/file_reference.ts";
import type { Config } from "./config.ts";
import type { Input } from "./input.ts";
import { requestLines } from "./request_lines.ts";
import { endsOf } from "./task_ends.ts";

const OUTPUT_CHARS_MAX = 512 * 1024;

const PAGE = 1_000;

const MINUTE_MS = 60_000;

/** Under which name a model is offered as a satellite. */
export interface BatchInferenceOptions {
  readonly name: string;
  readonly description: string;
  /** `<provider>:<name>`: the model that answers if the config does not name one. Undefined: the execution fails. */
  readonly model: string | undefined;
}

/** Never one that nobody has named: an answer by `echo` would be taken for a model's. */
function modelFor(config: Config, { name, model }: BatchInferenceOptions): string {
  const chosen = config.model ?? model;
  if (chosen !== undefined) return chosen;
  throw new SatelliteError(
    "permanent",
    "model_not_configured",
    `no model is configured for ${name}: set config.model to "<provider>:<name>", or satellites.models.${name} in the configuration of the service; "echo:<name>" is for tests`,
  );
}

/** Asks the model of the config, or else that of `options`. */
export function runWith(
  options: BatchInferenceOptions,
): (call: SatelliteCall<Input, Config>) => Promise<JsonObject> {
  return async (call) => new Inference(call, modelFor(call.config, options)).run();
}

type WithUsage = JsonObject & { readonly usage: JsonObject };

class Inference {
  readonly #call: SatelliteCall<Input, Config>;
  readonly #model: string;
  readonly #taskId: string;

  constructor(call: SatelliteCall<Input, Config>, model: string) {
    this.#call = call;
    this.#model = model;
    this.#taskId = derivedId(call.executionId, "task");
  }

  async run(): Promise<JsonObject> {
    const task = await this.#final(await this.#submitted());
    const { input } = this.#call;
    if (input.file_id !== undefined || this.#call.config.answers === "file")
      return { ...(await this.#asFile(task)), ...this.#facts(task) };
    if (typeof input.prompt !== "string") return { ...(await this.#responses(task)), ...this.#facts(task) };
    const [object] = (await this.#call.tasks.objects(this.#call.project, task, { limit: 1 })).items;
    const facts = this.#facts(task);
    const { usage, ...answer } = answerOf(object);
    return { ...answer, ...facts, usage: { ...usage, ...facts.usage } };
  }

  /** The task, made now or by an attempt before. */
  async #submitted(): Promise<TaskView> {
    const { tasks, project, signal } = this.#call;
    const before = await ifFound(tasks.task(project, this.#taskId));
    if (before !== undefined) return before;
    const items = this.#call.input.file_id === undefined ? this.#items() : [await this.#fileItem()];
    try {
      return await tasks.submit(project, { id: this.#taskId, items, hasOutputFile: true, signal });
    } catch (error) {
      throw asAttempt(error);
    }
  }

  #items() {
    const prompts = this.#call.input.prompt ?? [];
    const sla = this.#slaMinutes();
    const { instruction } = this.#call.config;
    return [prompts].flat().map((prompt) => ({
      model: this.#model,
      input: instruction === undefined ? prompt : `${instruction}\n\n${prompt}`,
      ...{ sla, ...this.#settings() },
    }));
  }

  async #fileItem() {
    const { files, project, executionId, input } = this.#call;
    const id = derivedId(executionId, "requests");
    const chunks = requestLines(files.read(project, input.file_id ?? ""), {
      model: this.#model,
      instruction: this.#call.config.instruction,
      ...this.#settings(),
    });
    try {
      await files.put(project, { id, name: "requests.jsonl", purpose: "batch", chunks });
    } catch (error) {
      if (!hasCode(error, "conflict")) throw asAttempt(error);
    }
    return { file_id: id, sla: this.#slaMinutes() };
  }

  #settings(): { readonly generation_config?: { readonly [name: string]: number } } {
    const { max_tokens, temperature } = this.#call.config;
    if (max_tokens === undefined && temperature === undefined) return {};
    return {
      generation_config: {
        ...(max_tokens === undefined ? {} : { max_output_tokens: max_tokens }),
        ...(temperature === undefined ? {} : { temperature }),
      },
    };
  }

  /** Whole minutes that are left, at least one: the execution's own deadline cuts it. */
  #slaMinutes(): number {
    const leftMs = this.#call.deadlineWallMs - this.#call.clock.wallMs();
    return Math.min(SLA_MINUTES_MAX, Math.max(1, Math.floor(leftMs / MINUTE_MS)));
  }

  /** Waits; when the execution is given up, the unsent rest of the task is given up, too. */
  #final({ id }: TaskView): Promise<TaskView> {
    const { tasks, project, signal } = this.#call;
    const task = {
      listen: (tell: (view: Promise<TaskView>) => void) =>
        endsOf(tasks).listen(id, () => tell(tasks.task(project, id))),
      look: async () => {
        const now = await tasks.task(project, id);
        return now.status === "submitted" ? undefined : now;
      },
      cancel: () => tasks.cancel(project, id),
    };
    return untilFinal(task, signal, () => this.#call.releasePlace?.()); // the engine has the order and the limits
  }

  #facts(task: TaskView): WithUsage {
    const { counts, usage } = task;
    return {
      model: this.#model,
      task_id: task.id,
      counts: { completed: counts.completed, failed: task.totalItems - counts.completed },
      usage: {
        input_tokens: usage.inputTokens,
        output_tokens: usage.outputTokens,
        ...moneyBody(usage),
      },
    };
  }

  /** In the order of the prompts; as a file when they are too many for an output. */
  async #responses(task: TaskView): Promise<JsonObject> {
    const { tasks, project } = this.#call;
    const responses: JsonObject[] = [];
    let chars = 0;
    let after: string | undefined;
    for (;;) {
      const page = await tasks.objects(project, task, {
        limit: PAGE,
        ...(after === undefined ? {} : { after }),
      });
      for (const object of page.items) {
        const response = entryOf(object);
        chars += JSON.stringify(response).length;
        if (chars > OUTPUT_CHARS_MAX) return this.#asFile(task);
        responses.push(response);
      }
      after = page.items.at(-1)?.object_id;
      if (!page.hasMore || after === undefined) return { responses };
    }
  }

  async #asFile(task: TaskView): Promise<JsonObject> {
    const { files, tasks, project, executionId } = this.#call;
    const id = derivedId(executionId, "answers");
    const output = await tasks.output(project, task.id);
    let file: FileView;
    try {
      file = await files.put(project, {
        id,
        name: "answers.jsonl",
        purpose: "batch_output",
        chunks: output.read(),
      });
    } catch (error) {
      if (!hasCode(error, "conflict")) throw asAttempt(error);
      file = await files.file(project, id);
    }
    return { file: referenceOf(file) };
  }
}

function entryOf(object: TaskObject): JsonObject {
  const { output, error, usage } = object;
  if (output !== undefined) return answerOf(object);
  return {
    response: null,
    error: { code: error?.code ?? "failed", message: error?.message ?? "" },
    price_factor: usage.price_factor,
  };
}

/**
 * The answer and what is known of it. Throws the failure of an object without one: the engine has repeated what could be
 * repeated.
 */
function answerOf(object: TaskObject | undefined): WithUsage {
  if (object?.output === undefined) {
    const { code = "failed", message = "there is no answer" } = object?.error ?? {};
    throw new SatelliteError("permanent", code, message);
  }
  const { object_id, status, output, error, usage, ...facts } = object;
  const { price_factor, ...tokens } = usage;
  return { response: output.text, price_factor, usage: tokens, ...(facts as JsonObject) }; // read from JSON
}

/** What may succeed later is `refused`, the caller's own faults are for good; perigee's faults stay what they are. */
function asAttempt(error: unknown): unknown {
  if (!(error instanceof PerigeeError)) return error;
  const { code, message } = error;
  if (code === "disk_full" || code === "too_many" || code === "sla_infeasible")
    return new SatelliteError("refused", code, message, { cause: error });
  const isCallers = [
    "usage",
    "invalid_request",
    "not_found",
    "budget_exceeded",
    "too_large",
    "duplicate_key",
  ];
  return isCallers.includes(code) ? new SatelliteError("permanent", code, message, { cause: error }) : error;
}
