import { expect, it } from "vitest";
import { jsonObject } from "../../src/cli/json_object.ts";

it("An object of JSON in an option is refused with the place of a name that occurs twice", () => {
  expect(jsonObject('{"a":{"b":1}}', "it must be JSON")).toEqual({ a: { b: 1 } });
  const said = (text: string): unknown => {
    try {
      return jsonObject(text, "it must be JSON");
    } catch (error) {
      return (error as Error).message;
    }
  };
  expect(said('{"a":{"b":1,"b":2}}')).toBe("it must be JSON; the name a.b occurs twice in one object");
  expect(said("[]")).toBe("it must be JSON");
  expect(said('{"token":"sesame"')).toBe("it must be JSON");
  expect(said(`{"a":${"[".repeat(5_000)}${"]".repeat(5_000)}}`)).toBe(
    "it must be JSON; it is nested deeper than 64 levels",
  );
});
