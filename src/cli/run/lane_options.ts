/**
 * The options that say where work goes, and those of `perigee run` that say whether it is waited for.
 */
import type { LaneOptions } from "../../engine/config/lane_rules.ts";
import type { LanePolicy } from "../../queue/lane_choice.ts";
import { laneNames, onTimeShare } from "../values.ts";
import { CANCEL, DETACH, LANES } from "./run_choices.ts";

/** As much of commander's `Command` as is needed here; only `main.ts` imports it. */
interface OptionTaker {
  option(flags: string, text: string): this;
  option<T>(flags: string, text: string, read: (text: string, before?: T) => T): this;
}

/** Reads a value so that commander names the option in an error. */
type CheckedReader = <T>(read: (text: string, before?: T) => T) => (text: string, before?: T) => T;

/** Options of lanes as commander parses them. */
export interface LaneArguments {
  readonly policy?: LanePolicy;
  readonly minOnTime?: number;
  readonly allowLanes?: readonly string[];
  readonly denyLanes?: readonly string[];
}

/** As the library takes them. */
export function laneOptions({ policy, minOnTime, allowLanes, denyLanes }: LaneArguments): LaneOptions {
  const lanes = {
    ...(allowLanes === undefined ? {} : { allow: allowLanes }),
    ...(denyLanes === undefined ? {} : { deny: denyLanes }),
  };
  return {
    ...(policy === undefined ? {} : { policy }),
    ...(minOnTime === undefined ? {} : { minOnTime }),
    ...(Object.keys(lanes).length === 0 ? {} : { lanes }),
  };
}

/** Adds them after `--policy`, and returns the command. */
export function withLanes<C extends OptionTaker>(command: C, checked: CheckedReader): C {
  return command
    .option(...LANES.minOnTime, checked(onTimeShare))
    .option(...LANES.allow, checked(laneNames))
    .option(...LANES.deny, checked(laneNames))
    .option(...DETACH)
    .option(...CANCEL);
}
