/**
 * The progress display: on a terminal some rows that are drawn again four times a second; elsewhere, and on a dumb terminal, a plain
 * line after half a second, every ten seconds, at each pause and at the end. Always on stderr.
 *
 *   opening (drawn at once) -> progress (each event) -> over: a completed run leaves one line, any other nothing
 *
 * Rows are erased by moving up over those that were drawn, as many as they take in the present width: a terminal that became
 * narrower has broken them. After SIGCONT nothing is erased, because a shell has written meanwhile.
 */
import type { Clock, Timer } from "../../clock.ts";
import type { Progress } from "../../engine/items/progress.ts";
import type { ProgressEvent } from "../../engine/runs/progress_feed.ts";
import { duration } from "../numbers.ts";
import type { AttemptCounts } from "./attempt_counts.ts";
import { progressLine, progressRows, type Ran } from "./progress_lines.ts";
import { cells, cut, fitted, painted, type Screen, type ShownPart, screenOf } from "./terminal.ts";

const LIVE_EVERY_MS = 250;
const PLAIN_EVERY_MS = 10_000;
const PLAIN_FIRST_MS = 500;

/** What a display needs. */
export interface DisplayOptions {
  readonly clock: Pick<Clock, "nowMs" | "timer">;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly counts: AttemptCounts;
  /** Where the key of a provider is set; absent: the variable that it is usually in. */
  readonly keyPlace?: ((provider: string) => string) | undefined;
  /** Only `say` writes. */
  readonly isQuiet?: boolean;
}

/** Draws the progress of a run. */
export class ProgressDisplay {
  readonly #stream: NodeJS.WriteStream;
  readonly #options: DisplayOptions;
  readonly #startedMs: number;
  /** Widths in cells of the rows that are drawn. */
  #drawn: readonly number[] = [];
  /** When a plain line was written last. */
  #writtenMs: number | undefined;
  #isPaused = false;
  #opening: Timer | undefined;

  constructor(stream: NodeJS.WriteStream, options: DisplayOptions) {
    this.#stream = stream;
    this.#options = options;
    this.#startedMs = options.clock.nowMs();
  }

  /** How often it wants the progress. */
  get everyMs(): number {
    return LIVE_EVERY_MS;
  }

  /** Says what is opened, or written after the last event, until the first event or `close`: on a terminal at once, elsewhere if it takes longer. */
  open(what: string, verb: "opening" | "writing" = "opening"): void {
    if (this.#options.isQuiet === true) return;
    const screen = this.#screen;
    const waitMs = screen.isLive ? LIVE_EVERY_MS : PLAIN_FIRST_MS;
    if (screen.isLive) this.#redraw([fitted(this.#openingRow(what, verb), screen)]);
    this.#opening = this.#options.clock.timer(waitMs, () => this.#stillOpening(what, verb), {
      keepsAlive: false,
    });
  }

  /** Draws the event; the end of a run that did not complete removes the live rows. */
  show(event: ProgressEvent): void {
    this.#opening?.cancel();
    if (this.#isPaused || this.#options.isQuiet === true) return;
    const isOver = event.type === "end";
    if (isOver && event.status !== "completed") this.#erase();
    else if (!this.#screen.isLive) this.#write(event);
    else if (isOver) this.#leave(event.progress);
    else this.#redraw(progressRows(event.progress, this.#ran, this.#screen));
  }

  /** Draws nothing until `resume`, while the terminal shows a question. */
  pause(): void {
    this.#drawn = [];
    this.#isPaused = true;
  }

  resume(): void {
    this.#isPaused = false;
  }

  /** Other programs have written: the rows that were drawn are not directly above any more. */
  forget(): void {
    this.#drawn = [];
  }

  /** Ends it without an event: the run could not be opened. */
  close(): void {
    this.#opening?.cancel();
    this.#erase();
  }

  /** Prints a line that stays, unless it is quiet. */
  note(text: string): void {
    if (this.#options.isQuiet !== true) this.say(text);
  }

  /** Prints a line that stays. */
  say(text: string): void {
    this.#erase();
    this.#stream.write(`${text}\n`);
  }

  get #screen(): Screen {
    return screenOf(this.#stream, this.#options.env);
  }

  get #ran(): Ran {
    const { clock, counts, keyPlace } = this.#options;
    const nowMs = clock.nowMs();
    return { counts, elapsedMs: nowMs - this.#startedMs, nowMs, keyPlace };
  }

  #openingRow(what: string, verb: string): readonly ShownPart[] {
    return [{ text: verb, style: "cyan" }, { text: what }, { text: duration(this.#ran.elapsedMs) }];
  }

  #stillOpening(what: string, verb: "opening" | "writing"): void {
    if (!this.#screen.isLive) {
      this.#writeLine(`${verb}  ${what}`);
      return;
    }
    this.open(what, verb);
  }

  #write({ type, progress }: ProgressEvent): void {
    const nowMs = this.#options.clock.nowMs();
    const dueMs =
      this.#writtenMs === undefined ? this.#startedMs + PLAIN_FIRST_MS : this.#writtenMs + PLAIN_EVERY_MS;
    // Events are late or early by a fraction: half the time between two decides.
    if (type !== "progress" || nowMs > dueMs - LIVE_EVERY_MS / 2)
      this.#writeLine(progressLine(progress, this.#ran));
  }

  #writeLine(line: string): void {
    this.#writtenMs = this.#options.clock.nowMs();
    this.#stream.write(`${line}\n`);
  }

  /** One line that stays. */
  #leave(progress: Progress): void {
    const screen = this.#screen;
    this.say(cut(progressLine(progress, this.#ran), screen.columns - 1, screen));
  }

  #redraw(rows: readonly (readonly ShownPart[])[]): void {
    const text = rows.map((row) => painted(row, this.#stream)).join("\n");
    this.#stream.write(`${this.#erasing()}${text}`);
    this.#drawn = rows.map((row) => row.reduce((sum, part) => sum + cells(part.text), 2 * (row.length - 1)));
  }

  #erase(): void {
    const erasing = this.#erasing();
    this.#drawn = [];
    if (erasing !== "") this.#stream.write(erasing);
  }

  /** Moves to the first row that is drawn and clears from there on. */
  #erasing(): string {
    if (this.#drawn.length === 0) return "";
    const { columns } = this.#screen;
    const rows = this.#drawn.reduce((sum, width) => sum + Math.max(1, Math.ceil(width / columns)), 0);
    return `\r${rows > 1 ? `\x1b[${rows - 1}A` : ""}\x1b[J`;
  }
}
