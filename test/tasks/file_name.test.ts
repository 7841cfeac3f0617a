import { describe, expect, it } from "vitest";
import { checkFileName } from "../../src/tasks/files/file_name.ts";

describe("fault 89: names of files", () => {
  it("are kept as they are given, in NFC", () => {
    const names = ["in.jsonl", "CON", "a..b", ".hidden", "Größe 你好 😀.jsonl", "x".repeat(255), "%2e%2e%2f"];
    for (const name of names) expect(checkFileName(name)).toBe(name);
    expect(checkFileName("e\u0301.jsonl")).toBe("\u00e9.jsonl");
  });

  it.each([
    ["nothing", ""],
    ["this folder", "."],
    ["the folder above", ".."],
    ["a path upwards", "../../etc/passwd"],
    ["a path of another system", "..\\x"],
    ["a NUL", "a\u0000b"],
    ["a line end", "a\r\nSet-Cookie: x"],
    ["a separator of lines", "a\u2028b"],
    ["a mark that turns the text", "in\u202elnosj.exe"],
    ["half of a surrogate pair", "a\ud800"],
    ["300 characters", "x".repeat(300)],
    ["255 characters of more bytes", "ü".repeat(255)],
  ])("refuses %s", (_what, name) => {
    expect(() => checkFileName(name)).toThrow(expect.objectContaining({ code: "invalid_request" }));
  });
});
