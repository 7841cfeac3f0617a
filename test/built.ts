import { fileURLToPath } from "node:url";

/** The command as the build has made it: tests that start processes start this one. */
export const MAIN: string = fileURLToPath(new URL("../dist/cli/main.js", import.meta.url));

/** `perigee/satellites` of the same build, for modules that processes load. */
export const SDK: string = new URL("../dist/satellites.js", import.meta.url).href;
