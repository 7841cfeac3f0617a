/**
 * Decides whether the wall clock is trusted when records are removed because of their age.
 *
 *   trusted  --it moved by more than a minute beyond the time that passed--> in doubt
 *   in doubt --it is back where it was--------------------------------------> trusted
 *   in doubt --it stayed steady for long enough-----------------------------> trusted
 *
 * Long enough: after a jump of up to an hour, as much work as it jumped; after a larger one, 24 hours of work.
 *
 * After a machine was suspended, its clock is right but has jumped; a process cannot distinguish this from a wrong clock. After the
 * wait no record is removed before its age in either case. The state is stored, so that a restart does not end or forget a doubt.
 * Why: docs/decisions/0019-clocks.md.
 */
import type { Clock, Moment } from "../clock.ts";
import { EVERY_PROJECT, type RecordStore } from "../store/records.ts";
import { leastMsBetween, SLEW_MS_MAX, wallJumpMs } from "../work/moment.ts";

const COLLECTION = "clock";
const ID = "seen";
/** The largest jump after which the doubt lasts for as long as the clock jumped. */
const SMALL_JUMP_MS = 3_600_000;
/** How long a doubt lasts after a larger jump, in milliseconds of work. */
const DOUBT_MS = 24 * 3_600_000;
/** At most this much of the time between two checks counts, because a stopped service observes nothing. */
const STEP_MS_MAX = 2 * 3_600_000;
const DAY_MS = 86_400_000;

export interface ClockTrustOptions {
  readonly clock: Clock;
  readonly store: Pick<RecordStore, "record" | "change">;
  /** Called when a doubt begins, and when it ends by itself. */
  readonly notice: (message: string) => void;
}

/** The stored record. */
interface Seen {
  readonly trusted: Moment;
  readonly doubt?: { readonly seen: Moment; readonly witnessedMs: number; readonly neededMs?: number };
}

/** Reads the clock, records its time, and returns whether its wall time is plausible. Call it at least once an hour. */
export async function isClockTrusted({ clock, store, notice }: ClockTrustOptions): Promise<boolean> {
  const now = clock.moment();
  const found = await store.record(EVERY_PROJECT, COLLECTION, ID);
  const before = found === undefined ? undefined : (JSON.parse(found.body) as Seen); // written below
  const after = looked(before, now);
  const body = JSON.stringify(after);
  const record = { collection: COLLECTION, id: ID, project: "", parent: "", createdWallMs: now.wallMs, body };
  await store.change([{ kind: "put", record }]);
  const isLarge = ({ doubt }: Seen): boolean => doubt !== undefined && neededOf(doubt) >= DOUBT_MS;
  if (after.doubt === undefined && before !== undefined && isLarge(before))
    notice("the clock is believed again");
  if (after.doubt?.witnessedMs === 0 && before !== undefined && isLarge(after))
    notice(doubtText(wallJumpMs(before.trusted, now)));
  return after.doubt === undefined;
}

function looked(before: Seen | undefined, now: Moment): Seen {
  if (before === undefined || isSteady(before.trusted, now)) return { trusted: now };
  const { trusted, doubt } = before;
  if (doubt === undefined || !isSteady(doubt.seen, now)) {
    const jumpMs = Math.abs(wallJumpMs(trusted, now));
    return {
      trusted,
      doubt: { seen: now, witnessedMs: 0, neededMs: jumpMs > SMALL_JUMP_MS ? DOUBT_MS : jumpMs },
    };
  }
  const neededMs = neededOf(doubt);
  const witnessedMs = doubt.witnessedMs + Math.min(leastMsBetween(doubt.seen, now), STEP_MS_MAX);
  return witnessedMs >= neededMs
    ? { trusted: now }
    : { trusted, doubt: { seen: now, witnessedMs, neededMs } };
}

/** Earlier versions stored only doubts after large jumps, without `neededMs`. */
function neededOf({ neededMs = DOUBT_MS }: NonNullable<Seen["doubt"]>): number {
  return neededMs;
}

function isSteady(earlier: Moment, later: Moment): boolean {
  return Math.abs(wallJumpMs(earlier, later)) <= SLEW_MS_MAX;
}

function doubtText(jumpMs: number): string {
  const days = (Math.abs(jumpMs) / DAY_MS).toFixed(1);
  const way = jumpMs > 0 ? "ahead of" : "behind";
  return `the clock is ${days} days ${way} the last time that this data folder recorded; nothing is removed because of its age until the clock is corrected, or has stayed so for 24 hours of work`;
}
