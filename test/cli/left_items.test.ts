/** What a command says of the items that it is left with. */
import { expect, it } from "vitest";
import { leftText } from "../../src/cli/display/holds.ts";

it.each([
  [1, [{ items: 1 }], "1 item left"],
  [40, [{ items: 30 }, { items: 10 }], "40 items left"],
  [19_814, [{ items: 4_891 }], "19,814 items left, 14,923 of them not reached"],
  [12, [], "12 items left"], // stopped by a signal: nothing is held
])("says of %i items which of them no hold counts", (submitted, holds, text) => {
  expect(leftText(submitted, holds)).toBe(text);
});
