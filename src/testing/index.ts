/**
 * The entry point `perigee/testing`: time, wire, disk and store for tests without any of the real ones, and the contracts that
 * implementations of the ports are put to.
 */
export type { MeasureSettings } from "../shard/measure.ts";
export { createInlineMeasurer } from "../shard/measurer.ts";
export { createMemoryStore } from "../store/memory.ts";
export { type ClockUnderTest, clockContract } from "./clock_contract.ts";
export type { ContractCase } from "./contract_case.ts";
export { type CrashableStore, type CrashableStoreOptions, createCrashableStore } from "./crashable_store.ts";
export { diskContract } from "./disk_contract.ts";
export { FakeClock, type FakeClockOptions } from "./fake_clock.ts";
export { functionContract } from "./function_contract.ts";
export { type CrashOptions, type DiskOperation, MemoryDisk, type MemoryDiskOptions } from "./memory_disk.ts";
export { keepingObjectsContract, objectsContract } from "./objects_contract.ts";
export { providerContract } from "./provider_contract.ts";
export { createRandom } from "./random.ts";
export {
  jsonAnswer,
  type LedgerEntry,
  openaiAnswer,
  openaiError,
  type Script,
  type ScriptContext,
  ScriptedTransport,
} from "./scripted_transport.ts";
export { simulate } from "./simulated/simulate.ts";
export type {
  SimulatedBatch,
  SimulatedFailure,
  SimulatedProvider,
  SimulatedRequest,
  SimulationEvent,
  SimulationOptions,
  SimulationResult,
} from "./simulated/simulation_terms.ts";
export { durableStoreContract, type StorageUnderTest, storeContract } from "./store_contract.ts";
export { type TransportUnderTest, transportContract } from "./transport_contract.ts";
export { durableWorkLogContract, type WorkLogUnderTest, workLogContract } from "./work_log_contract.ts";
