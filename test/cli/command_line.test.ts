/** Commands as they are shown again to a user. */
import { describe, expect, it } from "vitest";
import { withoutOption } from "../../src/cli/command_line.ts";

describe("a command that is shown again without one of its options", () => {
  const words = ["run", "in.jsonl", "--out", "out.jsonl"];

  it.each([
    ["an option of its own", ["run", "in.jsonl", "--retry-failed", "--out", "out.jsonl"]],
    ["an option with = and its value", ["run", "in.jsonl", "--retry-failed=timeout", "--out", "out.jsonl"]],
    ["an option and its value", ["run", "in.jsonl", "--out", "out.jsonl", "--retry-failed", "timeout"]],
    ["no such option", words],
  ])("keeps all other words of a command with %s", (_, given) => {
    expect(withoutOption(given, "--retry-failed")).toEqual(words);
  });

  it("keeps an option whose name only begins in the same way", () => {
    expect(withoutOption(["--schema-tries", "2"], "--schema")).toEqual(["--schema-tries", "2"]);
  });
});
