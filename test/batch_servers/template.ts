/** JSON texts of one shape, written many times: `JSON.stringify` of the whole took most of the time of a batch's results. */

/** Stands for a value in the shape. */
export interface Slot {
  toJSON(): string;
}

export function slot(index: number): Slot {
  return { toJSON: () => `\u0001${index}` };
}

/** Fills the slots of a shape by their indexes; each is in it once. */
export function templateOf(shape: unknown): (values: readonly (string | number)[]) => string {
  const pieces = JSON.stringify(shape).split(/"\\u0001(\d+)"/);
  return (values) => {
    let text = pieces[0] ?? "";
    for (let index = 1; index < pieces.length; index += 2) {
      const value = values[Number(pieces[index])] ?? "";
      text += typeof value === "number" ? value : JSON.stringify(value);
      text += pieces[index + 1];
    }
    return text;
  };
}
