/**
 * Commands that host custom satellites: orbit serve, orbit describe.
 */

/** As much of commander's `Command` as is needed here; only `main.ts` imports it. */
interface Commands {
  command(name: string): Commands;
  description(text: string): Commands;
  argument(name: string, text: string): Commands;
  option(flags: string, text: string, value?: string): Commands;
  option(flags: string, text: string, parse: (text: string) => number, value: number): Commands;
  addHelpText(position: "after", text: string): Commands;
  action(run: (argument: string, options: Record<string, unknown>) => Promise<void>): Commands;
}

/** Adds them; `portNumber` reads a port, `finish` ends the process with a code. */
export function addOrbitCommands(
  root: Commands,
  portNumber: (text: string) => number,
  finish: (code: number) => void,
): void {
  const orbit = root.command("orbit").description("Your own satellites, in a separate process.");
  orbit
    .command("serve")
    .description("Host the satellites of a file. Prints the address as one line of JSON.")
    .argument("<file>", "a Node module that exports what defineSatellite returns")
    .option("--host <address>", "where to listen", "127.0.0.1")
    .option("--port <number>", "0 takes a free one", portNumber, 8090)
    .option("--behind-proxy", "a TLS proxy is in front: listen on any address")
    .addHelpText(
      "after",
      "\nPERIGEE_ORBIT_SECRETS (or a file, PERIGEE_ORBIT_SECRETS_FILE) holds the secrets of the registrations: whsec_...\nfor all satellites of the file, NAME=whsec_... for one. PERIGEE_EGRESS_ALLOW opens private networks to them.",
    )
    .action(async (file: string, options: Record<string, unknown>) =>
      finish(await (await import("./orbit.ts")).orbitServe(file, options)),
    );
  orbit
    .command("describe")
    .description("Print the descriptions of the satellites of a file, as JSON to register them.")
    .argument("<file>", "a Node module that exports what defineSatellite returns")
    .action(async (file: string) => finish(await (await import("./orbit.ts")).orbitDescribe(file)));
}
