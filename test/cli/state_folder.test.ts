import { homedir } from "node:os";
import { describe, expect, it } from "vitest";
import { stateFolder } from "../../src/cli/run/state_folder.ts";

describe("the folder of learnt figures", () => {
  it.each([
    [{ state: "/s" }, { XDG_STATE_HOME: "/x" }, "/s"],
    [{}, { XDG_STATE_HOME: "/x" }, "/x/perigee"],
    [{}, { XDG_STATE_HOME: "relative" }, `${homedir()}/.local/state/perigee`],
    [{}, {}, `${homedir()}/.local/state/perigee`],
    [{ learn: false }, { XDG_STATE_HOME: "/x" }, false],
  ])("with %j and %j is %s", (given, env, folder) => {
    expect(stateFolder(given, env)).toBe(folder);
  });

  it("is refused together with --no-learn, which would make it useless", () => {
    expect(() => stateFolder({ learn: false, state: "/s" }, {})).toThrow(
      "--state and --no-learn contradict each other: leave one of them out",
    );
  });
});
