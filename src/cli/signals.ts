/**
 * The signals that stop a command: SIGINT, SIGTERM, and the SIGHUP of a terminal that was closed.
 *
 *   first signal: what is under way ends -> a second SIGINT or SIGTERM ends the process at once
 *
 * A closed terminal sends SIGHUP more than once (the kernel, then the shell), so it never counts as the second signal.
 */
const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
/** Interrupted, as the README says. */
const EXIT_INTERRUPTED = 130;

/** `stop` is called once, with the first signal. Returns what ends the listening. */
export function onSignals(stop: (signal: NodeJS.Signals) => void): () => void {
  let isStopping = false;
  const onSignal = (signal: NodeJS.Signals): void => {
    if (!isStopping) {
      isStopping = true;
      stop(signal);
    } else if (signal !== "SIGHUP") {
      process.exit(EXIT_INTERRUPTED);
    }
  };
  for (const signal of SIGNALS) process.on(signal, onSignal);
  return () => {
    for (const signal of SIGNALS) process.off(signal, onSignal);
  };
}

/** Of a command that serves: 0 after the first signal; the second one ends the process. */
export function signalled(): Promise<number> {
  return new Promise((resolve) => {
    onSignals((signal) => {
      process.stderr.write(`perigee: ${signal}, finishing what is under way (again to end at once)\n`);
      resolve(0);
    });
  });
}
