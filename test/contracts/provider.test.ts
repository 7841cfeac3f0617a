/** The provider's contract, put to every provider known by name. */
import { describe, it } from "vitest";
import { createProvider, defaultSettings, KNOWN_PROVIDERS } from "../../src/providers/registry.ts";
import { providerContract } from "../../src/testing/provider_contract.ts";

for (const name of KNOWN_PROVIDERS.keys()) {
  describe(`the provider ${name}`, () => {
    const provider = createProvider({ ...defaultSettings(name)!, key: "key-of-a-test" });
    for (const { name: promise, run } of providerContract(provider)) it(promise, run);
  });
}
