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
      return decoded.class === "success" ? { ...decoded, body: jsonIn(provider, answer.body) } : decoded;
    },
  };
  KEEPING.set(provider, keeping);
  KEEPING.set(keeping, keeping);
  return keeping;
}

/** A codec of the caller may read another format: its bytes are kept as a text. */
function jsonIn({ settings }: Provider, body: Uint8Array): Uint8Array {
  if (settings.hasOwnCodec !== true) return body;
  const text = Buffer.from(body).toString();
  try {
    JSON.parse(text);
    return body;
  } catch {
    return Buffer.from(JSON.stringify(text));
  }
}
