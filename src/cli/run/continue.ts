/**
 * How to continue a command that stopped with items left: what the user has to change, and the command with that change.
 *
 *   to continue: raise the cap to at least $0.013 ($1.30 is enough for all): perigee run in.jsonl --out out.jsonl --max-cost <usd>
 *
 * A part in angle brackets is for the user to fill in; a shell refuses it as it is. A deadline goes on while nothing runs, so the
 * command says until when it works, or, in the last minute and later, has another `--sla`, which counts from its call.
 */
import { styleText } from "node:util";
import { keyVariable } from "../../engine/config/key_places.ts";
import type { Hold } from "../../engine/items/holds.ts";
import { commandLine, withoutOption } from "../command_line.ts";
import { keyAdvice } from "../display/holds.ts";
import { duration } from "../numbers.ts";

/** What decides how a command continues. */
export interface Stopped {
  /** The command as it was called, without the program's name. */
  readonly words: readonly string[];
  /** What held the items that are left. */
  readonly held: readonly StoppedBy[];
  /** The name of `--cap`, and the sheet of `--prices`. */
  readonly cap?: string | undefined;
  readonly prices?: string | undefined;
  /** `--sla`, and milliseconds until what is left expires by it: below 0 when it has, absent without a deadline. */
  readonly sla?: number | undefined;
  readonly deadlineInMs?: number | undefined;
  /** Where the key of a provider was read from; default: the variable that it is usually in. */
  readonly keyPlace?: ((provider: string) => string) | undefined;
  /** The lines are with a fleet: providers, keys and prices are its workers', and only the cap may change. */
  readonly isOnFleet?: boolean;
}

/** Too little for another call. */
const DEADLINE_MS_MIN = 60_000;

type StoppedBy = Pick<
  Hold,
  "reason" | "provider" | "address" | "model" | "needed_usd" | "enough_usd" | "cap"
>;

/** What the user does, in words, and a change to the command: a flag that is replaced or added. */
interface Step {
  readonly todo: string;
  readonly flag?: string;
  /** As a user reads it, with a placeholder; present with `flag`. */
  readonly value?: string;
}

/** `to continue: ...`, with its line end. */
export function continueLine(stopped: Stopped): string {
  const { deadlineInMs = Number.POSITIVE_INFINITY } = stopped;
  const late = deadlineInMs < DEADLINE_MS_MIN ? lateStep(stopped.sla, deadlineInMs) : undefined;
  const steps = [...stepsOf(stopped), ...(late === undefined ? [] : [late])];
  const todo = [...new Set(steps.map((step) => step.todo))].join("; ");
  const command = styleText("bold", changed(stopped.words, steps), { stream: process.stderr });
  // A single item that breaks its provider is held like one of an outage, and would be held again.
  const isByItself = stopped.held.length > 0 && steps.every((step) => step === late);
  const mayFinish = isByItself && stopped.isOnFleet !== true && !stopped.words.includes("--finish");
  const finish = mayFinish ? " (--finish ends what is held with its error)" : "";
  const isSoon = late === undefined && Number.isFinite(deadlineInMs);
  const until = isSoon
    ? `what is left expires in ${duration(deadlineInMs)}, also while nothing runs; another --sla counts from its call\n`
    : "";
  return `to continue${finish}: ${todo === "" ? "" : `${todo}: `}${command}\n${until}`;
}

/** The same `--sla` keeps its deadline: what is left would expire at once. */
function lateStep(sla: number | undefined, deadlineInMs: number): Step {
  const when = deadlineInMs > 0 ? `ends in ${duration(deadlineInMs)}` : "has passed";
  const todo = `choose an --sla other than ${sla}, whose deadline ${when}`;
  return { todo, flag: "--sla", value: "<minutes>" };
}

function stepsOf(stopped: Stopped): readonly Step[] {
  const isModel = stopped.held.every(
    ({ reason }) => reason === "model_unavailable" || reason === "provider_missing",
  );
  const step = (hold: StoppedBy): Step | undefined =>
    stopped.isOnFleet === true ? fleetStep(hold, stopped) : stepOf(hold, stopped, isModel);
  return stopped.held.flatMap((hold) => step(hold) ?? []);
}

/** What is not the cap is the workers' to change, or the input's of another run: this command has no option for it. */
function fleetStep(hold: StoppedBy, stopped: Stopped): Step | undefined {
  const { reason, model, provider = "the provider" } = hold;
  switch (reason) {
    case "price_unknown":
      return { todo: `give the workers a price sheet, ${sheetText(stopped)}` };
    case "provider_missing":
      return { todo: `configure ${JSON.stringify(provider)} at the workers` };
    case "model_unavailable":
      return { todo: `let ${provider} offer ${model ?? "the model"} to the key of the workers` };
    default: {
      const step = stepOf(hold, stopped, false);
      const isHere = step?.flag !== undefined || reason === "quota" || reason === "authentication";
      return step === undefined || isHere ? step : { ...step, todo: `${step.todo}, at the workers` };
    }
  }
}

/** Undefined for what passes by itself. */
function stepOf(hold: StoppedBy, stopped: Stopped, isModel: boolean): Step | undefined {
  const { reason, provider = "the provider" } = hold;
  const { keyPlace = keyVariable } = stopped;
  switch (reason) {
    case "cap_reached":
      return capStep(hold, stopped);
    case "price_unknown":
      return stopped.prices === undefined
        ? { todo: `write a price sheet, ${sheetText(stopped)}`, flag: "--prices", value: "<sheet.json>" }
        : { todo: `add the price to ${stopped.prices}` };
    case "provider_missing":
    case "model_unavailable":
      return modelStep(hold, isModel);
    case "key_missing":
      return { todo: `set ${keyVariable(provider)}` };
    case "key_changed":
      return {
        todo: `set the key of ${provider} that its batches were made with (${keyPlace(provider)})`,
      };
    case "authentication":
      return { todo: keyAdvice(hold, keyPlace) };
    case "quota":
      return { todo: `add credit to the account of ${provider}` };
    case "disk_full":
      return { todo: "free space on the disk" };
    case "file_damaged":
      return { todo: "put the stored lines back" };
    case "outage":
    case "rate_limited":
    case "overloaded":
      return undefined;
  }
}

/** A whole sheet for the models without a price. */
function sheetText({ held }: Stopped): string {
  const models = held.flatMap(({ reason, model }) =>
    reason === "price_unknown" && model !== undefined
      ? [`${JSON.stringify(model)}: {"input_mtok": <usd>, "output_mtok": <usd>}`]
      : [],
  );
  return `{"version": "1", "models": {${models.join(", ")}}}`;
}

function capStep({ needed_usd, enough_usd, cap }: StoppedBy, stopped: Stopped): Step {
  const least = needed_usd === undefined ? "" : ` to at least ${capText(needed_usd)}`;
  const all = enough_usd === undefined ? "" : capText(enough_usd);
  const enough = all === "" || least.endsWith(` ${all}`) ? "" : ` (${all} is enough for all)`;
  const todo = `raise the cap${least}${enough}`;
  if (cap === undefined) return { todo, flag: "--max-cost", value: "<usd>" };
  if (cap === stopped.cap) return { todo, flag: "--cap", value: `${cap}=<usd>` };
  return { todo: `${todo}, in the configuration ("${cap}")` };
}

/** `--model` replaces the model of every line that is left, so it is proposed only if nothing else is held. */
function modelStep({ reason, provider = "" }: StoppedBy, isModel: boolean): Step {
  const configured = reason === "provider_missing" ? `configure ${JSON.stringify(provider)}, or ` : "";
  return isModel
    ? { todo: `${configured}choose another model`, flag: "--model", value: "<provider>:<name>" }
    : { todo: `${configured}correct the model in the lines and add --update` };
}

/** Rounded up to two significant digits below 10 dollars, above to whole ones: a cap of this amount suffices. */
function capText(usd: number): string {
  if (usd >= 10) return `$${Math.ceil(usd)}`;
  const digits = Math.max(0, 1 - Math.floor(Math.log10(Math.max(usd, 1e-9))));
  const unit = 10 ** -digits;
  return `$${(Math.ceil(usd / unit - 1e-9) * unit).toFixed(Math.min(9, digits))}`;
}

function changed(words: readonly string[], steps: readonly Step[]): string {
  const flags = new Map(
    steps.flatMap(({ flag, value }) => (flag === undefined ? [] : [[flag, `${flag} ${value}`] as const])),
  );
  const kept = [...flags.keys()].reduce(withoutOption, words);
  return [commandLine(kept), ...flags.values()].join(" ");
}
