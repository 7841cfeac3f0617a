/** Entries of the work log that an earlier version wrote are read as before. */
import { expect, it } from "vitest";
import {
  eachRecord,
  type LogRecord,
  LogRecords,
  readHeader,
  recordBytes,
  writeEntry,
} from "../../src/log/records.ts";
import { FakeClock } from "../../src/testing/fake_clock.ts";
import { endedOf, intentOf } from "../../src/testing/work_log_calls.ts";

it("An entry of version 1 says what its attempts took, and not how they failed", () => {
  const header = { firstSequence: 1, nextTask: 9, names: 0, moment: new FakeClock().moment() };
  const [intent, ended] = [
    intentOf(7, 1, 2),
    endedOf(7, 1, 2, { ambiguousUsd: 0.5, httpStatus: 429, code: 3 }),
  ];
  const records = new LogRecords();
  records.add("attemptEnded", ended);
  records.add("intent", intent);
  const bytes = writeEntry(header, [records]);
  const readAll = (entry: Uint8Array): LogRecord[] => {
    const found: LogRecord[] = [];
    eachRecord(entry, (record) => void found.push(record));
    return found;
  };
  expect(readAll(bytes)).toEqual([
    { is: "attemptEnded", ...ended },
    { is: "intent", ...intent },
  ]);
  const endOfFirst = bytes.byteLength - recordBytes("intent");
  const old = Buffer.concat([bytes.subarray(0, endOfFirst - 5), bytes.subarray(endOfFirst)]);
  old[0] = 1;
  expect(readHeader(old)).toEqual(header);
  expect(readAll(old)).toEqual([
    { is: "attemptEnded", ...ended, httpStatus: 0, code: 0 },
    { is: "intent", ...intent },
  ]);
});
