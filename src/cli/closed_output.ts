/**
 * What reads a command's output may end before the command: `| head`, a terminal that was closed, a log shipper that died.
 */

/** From then on writes to a closed standard output or error are lost, and no failure of the command. Once for a process. */
export function ignoreClosedOutput(): void {
  for (const stream of [process.stdout, process.stderr])
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE" && error.code !== "EIO") throw error;
    });
}
