/** What errors mean on the way to PostgreSQL: a lost session is replaced, what the program throws is not tried again. */
import { AssertionError } from "node:assert";
import { expect, it } from "vitest";
import { PerigeeError } from "../../src/errors.ts";
import { pgFailure, pgFaultOf } from "../../src/store/postgres/pg_failure.ts";

const withCode = (code: string): Error => Object.assign(new Error("from the server"), { code });

it.each([
  ["a session that `pg` has lost", new Error("Connection terminated unexpectedly"), "away"],
  ["a connection that is refused", withCode("ECONNREFUSED"), "away"],
  ["several addresses that are refused", new AggregateError([withCode("ECONNREFUSED")]), "away"],
  ["a server that stops", withCode("57P01"), "away"],
  ["a connection that the server reports as broken", withCode("08006"), "away"],
  ["a deadlock", withCode("40P01"), "again"],
  ["a value that is there already", withCode("23505"), "conflict"],
  ["a full disk", withCode("53100"), "full"],
  ["a wrong password", withCode("28P01"), "refused"],
  ["a table that does not exist", withCode("42P01"), "failed"],
  ["a refusal of the store", new PerigeeError("store_damaged", "a row is damaged"), "failed"],
  ["a row that is not JSON", new SyntaxError("Unexpected end of JSON input"), "failed"],
  ["a value that cannot be sent", new TypeError("Converting circular structure to JSON"), "failed"],
  ["an assertion", new AssertionError({ message: "a row has a sequence" }), "failed"],
])("%s is understood", (_, error, fault) => {
  expect(pgFaultOf(error)).toBe(fault);
});

it("says what was done, and keeps the cause", () => {
  const cause = new SyntaxError("Unexpected end of JSON input");
  expect(pgFailure(cause, "cannot read from the store")).toMatchObject({
    code: "store_failed",
    message: "cannot read from the store: Unexpected end of JSON input",
    cause,
  });
});
