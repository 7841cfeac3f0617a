/**
 * Amounts of money as logs state them: numbers, or texts of numbers.
 *
 * Limit: above a billion dollars an amount is nonsense, which would be the sum of all others.
 */
const AMOUNT_MAX = 1e9;

/** In the unit of the log; NaN for anything but a number from 0 to a billion. */
export function amountOf(value: unknown): number {
  if (typeof value !== "number" && typeof value !== "string") return Number.NaN;
  const amount = Number(value);
  return amount >= 0 && amount <= AMOUNT_MAX ? amount : Number.NaN;
}
