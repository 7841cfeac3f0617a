/**
 * The pilot of `perigee run`: prints a quote of the rest, and asks on a terminal whether to continue.
 */
import { createInterface } from "node:readline";
import type { Quote } from "../../price/quote.ts";
import type { ProgressDisplay } from "../display/progress.ts";
import { count } from "../numbers.ts";
import { quoteTable } from "./quote.ts";

/** The terminal that asks. */
export interface Terminal {
  readonly input: NodeJS.ReadableStream & { readonly isTTY?: boolean };
  readonly output: NodeJS.WritableStream & { readonly isTTY?: boolean };
}

/** How a pilot asks: not at all when `isSure`, and until the run is over. */
export interface Asking {
  readonly isSure: boolean;
  readonly signal: AbortSignal;
}

/** Shows the quote of the rest, and asks on a terminal whether to continue. */
export function pilotListener(
  display: Pick<ProgressDisplay, "note" | "say" | "pause" | "resume">,
  { input, output }: Terminal,
  { isSure, signal }: Asking,
): (rest: Quote) => Promise<boolean> {
  return async (rest) => {
    const items = rest.items === 1 ? "1 item" : `${count(rest.items)} items`;
    const text = `after the pilot, the other ${items}:\n\n${quoteTable(rest)}`;
    if (isSure || input.isTTY !== true || output.isTTY !== true) {
      display.note(text);
      return true;
    }
    display.say(text);
    display.pause();
    try {
      return await isAgreed(`go on with the other ${items}? [y/N] `, { input, output }, signal);
    } finally {
      display.resume();
    }
  };
}

/** Whether the next line says yes; the end of the input, or of the run, means no. It reads whole lines, so that Ctrl-C stays a signal. */
function isAgreed(question: string, { input, output }: Terminal, signal: AbortSignal): Promise<boolean> {
  if (signal.aborted) return Promise.resolve(false);
  const lines = createInterface({ input, terminal: false });
  output.write(question);
  return new Promise((resolve) => {
    lines.once("line", (line) => {
      resolve(/^y(es)?$/i.test(line.trim()));
      lines.close();
    });
    lines.once("close", () => resolve(false));
    signal.addEventListener("abort", () => lines.close(), { once: true });
  });
}
