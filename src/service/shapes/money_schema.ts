/**
 * The fields in which answers show money.
 */
import { z } from "../../schema.ts";

const amount: z.ZodNumber = z.number().min(0);

/** As `moneyBody` fills them. */
export const moneyFields: Readonly<Record<"billed_usd" | "ambiguous_usd" | "list_usd" | "usd", z.ZodNumber>> =
  {
    billed_usd: amount.describe("What providers bill for it: real usage, at the tier that was served."),
    ambiguous_usd: amount.describe(
      "The most that attempts of unknown end, and answers without a usable token count, may have cost besides.",
    ),
    list_usd: amount.describe("Its usage at the providers' list price."),
    usd: amount.describe("What this service charges for it: list price times price factor."),
  };
