/**
 * How a command that serves is told to stop.
 */

/** 0 after the first signal; the second one ends the process. */
export function signalled(): Promise<number> {
  return new Promise((resolve) => {
    let isStopping = false;
    const onSignal = (signal: NodeJS.Signals): void => {
      if (isStopping) process.exit(130);
      isStopping = true;
      process.stderr.write(`perigee: ${signal}, finishing what is under way (again to end at once)\n`);
      resolve(0);
    };
    process.on("SIGINT", onSignal).on("SIGTERM", onSignal);
  });
}
