/**
 * The options of `perigee run` that say where work goes, and whether it is waited for.
 */
import { laneNames, onTimeShare } from "../values.ts";
import { CANCEL, DETACH, LANES } from "./run_choices.ts";

/** As much of commander's `Command` as is needed here; only `main.ts` imports it. */
interface OptionTaker {
  option(flags: string, text: string): this;
  option<T>(flags: string, text: string, read: (text: string, before?: T) => T): this;
}

/** Reads a value so that commander names the option in an error. */
type CheckedReader = <T>(read: (text: string, before?: T) => T) => (text: string, before?: T) => T;

/** Adds them after `--policy`, and returns the command. */
export function withLanes<C extends OptionTaker>(command: C, checked: CheckedReader): C {
  return command
    .option(...LANES.minOnTime, checked(onTimeShare))
    .option(...LANES.allow, checked(laneNames))
    .option(...LANES.deny, checked(laneNames))
    .option(...DETACH)
    .option(...CANCEL);
}
