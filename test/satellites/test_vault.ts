/** A vault on a key that everybody knows. */
import { makeSecretKey } from "../../src/satellites/secrets/secret_key.ts";
import { createVault, type Vault } from "../../src/satellites/secrets/vault.ts";

export const testVault: Vault = createVault(makeSecretKey(Buffer.alloc(32, 7)));
