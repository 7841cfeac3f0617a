/**
 * Providers whose successes have the bytes that they were read from, for lines with the provider's own body.
 */
import type { Provider } from "./provider.ts";

const KEEPING = new WeakMap<Provider, Provider>();

/** The same provider, whose `decode` keeps the body; one for each provider, and for itself. */
export function keepingBody(provider: Provider): Provider {
  const known = KEEPING.get(provider);
  if (known !== undefined) return known;
  const keeping: Provider = {
    ...provider,
    decode: (answer) => {
      const decoded = provider.decode(answer);
      return decoded.class === "success" ? { ...decoded, body: answer.body } : decoded;
    },
  };
  KEEPING.set(provider, keeping);
  KEEPING.set(keeping, keeping);
  return keeping;
}
