/**
 * Reports what a run leaves out of requests, once for each model and warning, and which providers it cannot send to, once for
 * each, as soon as the first line with it is read.
 */
import type { MeasuredBlock } from "../../shard/measured.ts";
import { parseModelId } from "../../work/request.ts";
import { countedAs, type Warning, warningsIn } from "../../work/warning.ts";

/** A warning that lines of one model have. */
export interface RunWarning {
  readonly warning: Warning;
  /** `<provider>:<name>`. */
  readonly model: string;
  /** The first line that has it, from 1. */
  readonly line: number;
}

/** Called at most once for each model and warning. */
export type WarningListener = (warning: RunWarning) => void;

/** A provider that lines of a run are for, and that nothing can be sent to before the caller changes something. */
export interface MissingProvider {
  readonly reason: "key_missing" | "provider_missing";
  /** What is missing, and what to do about it. */
  readonly message: string;
  /** The first line for it, from 1. */
  readonly line: number;
}

/** Called at most once for each provider. */
export type MissingListener = (missing: MissingProvider) => void;

interface Listeners {
  readonly onWarning?: WarningListener;
  readonly onMissing?: MissingListener;
}

/** One for a run that is listened to. */
export class WarningFeed {
  readonly #listeners: Listeners;
  readonly #keysMissing: ReadonlyMap<string, string>;
  readonly #seenLists = new Set<string>();
  readonly #told = new Set<string>();

  private constructor(listeners: Listeners, keysMissing: ReadonlyMap<string, string>) {
    this.#listeners = listeners;
    this.#keysMissing = keysMissing;
  }

  /** Undefined when nobody listens. `keysMissing`: what to do about providers without a key, by name. */
  static of(listeners: Listeners, keysMissing: ReadonlyMap<string, string>): WarningFeed | undefined {
    const isHeard = listeners.onWarning !== undefined || listeners.onMissing !== undefined;
    return isHeard ? new WarningFeed(listeners, keysMissing) : undefined;
  }

  /** Reports what is new in a block, before anything of it is sent. Costs nothing for a block without warnings. */
  see(block: MeasuredBlock): void {
    if (this.#listeners.onMissing !== undefined) this.#seeMissing(block);
    this.#seeWarnings(block);
  }

  #seeMissing({ count, lines, groupOf, groups, rejected }: MeasuredBlock): void {
    for (const { line, code, message } of rejected)
      if (code === "provider_missing") this.#tellMissing({ reason: code, message, line });
    if (this.#keysMissing.size === 0) return;
    const messages = groups.map(({ model }) => this.#keysMissing.get(parseModelId(model)?.provider ?? ""));
    if (messages.every((message) => message === undefined || this.#told.has(message))) return;
    for (let item = 0; item < count; item += 1) {
      const message = messages[groupOf[item] ?? 0];
      if (message !== undefined)
        this.#tellMissing({ reason: "key_missing", message, line: lines[item] ?? 0 });
    }
  }

  #tellMissing(missing: MissingProvider): void {
    if (this.#told.has(missing.message)) return;
    this.#told.add(missing.message);
    this.#listeners.onMissing?.(missing);
  }

  #seeWarnings({ count, lines, groupOf, groups, warnings, warningLists }: MeasuredBlock): void {
    if (warningLists.length === 0) return;
    for (let item = 0; item < count; item += 1) {
      const list = warningLists[(warnings[item] ?? 0) - 1];
      if (list === undefined) continue;
      const model = groups[groupOf[item] ?? 0]?.model ?? "";
      const seen = `${model} ${list}`;
      if (this.#seenLists.has(seen)) continue;
      this.#seenLists.add(seen);
      for (const warning of warningsIn(list)) this.#tell({ warning, model, line: lines[item] ?? 0 });
    }
  }

  #tell(warning: RunWarning): void {
    const name = `${warning.model} ${countedAs(warning.warning)}`;
    if (this.#told.has(name)) return;
    this.#told.add(name);
    this.#listeners.onWarning?.(warning);
  }
}
