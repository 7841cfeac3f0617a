/**
 * One batch of syslog frames over one connection, TCP or TLS.
 *
 *   connected -> (TLS) -> written -> our end is closed -> theirs is closed: taken
 *
 * Syslog acknowledges nothing. The nearest sign is a receiver that closes its end in order after this one: it has read all that was
 * written. A connection that breaks before, or stays open until the deadline, may have taken it or not.
 */
import { isIP, type Socket } from "node:net";
import { connect as connectTls, type TLSSocket } from "node:tls";
import type { SatelliteCall } from "../../sdk/satellite.ts";
import { SatelliteError } from "../../sdk/satellite_error.ts";

export interface SyslogReceiver {
  readonly host: string;
  readonly port: number;
  readonly tls: boolean;
  /** PEM; default: what the system trusts. */
  readonly ca?: string | undefined;
  readonly certificate?: string | undefined;
  readonly key?: string | undefined;
  readonly timeout_ms: number;
}

type Call = Pick<SatelliteCall, "http" | "signal" | "clock">;

/** Throws `SatelliteError`: `blocked_destination`, `connection_failed`, `tls_failed`, `connection_lost`, `timeout`. */
export async function sendFrames(
  call: Call,
  frames: readonly Buffer[],
  receiver: SyslogReceiver,
): Promise<void> {
  const { host, port, timeout_ms: timeoutMs } = receiver;
  const { http, signal } = call;
  const result = await http.egress.connect({ host, port, timeoutMs, signal });
  if (!result.ok) {
    signal.throwIfAborted();
    const { failure, message } = result;
    if (failure === "blocked_destination") throw new SatelliteError("permanent", failure, message);
    throw new SatelliteError("not_sent", "connection_failed", message);
  }
  const { socket } = result;
  const stop = new AbortController();
  const end = (): void => stop.abort();
  const timer = call.clock.timer(timeoutMs, end);
  signal.addEventListener("abort", end, { once: true });
  stop.signal.addEventListener("abort", () => socket.destroy(), { once: true });
  try {
    await exchange(receiver.tls ? await secured(socket, receiver) : socket, frames);
  } catch (error) {
    signal.throwIfAborted();
    if (!stop.signal.aborted) throw error;
    throw new SatelliteError("ambiguous", "timeout", "the receiver did not close the connection in time");
  } finally {
    timer.cancel();
    signal.removeEventListener("abort", end);
    socket.destroy();
  }
}

/** Under the requested name. Nothing of the batch has left before. */
function secured(socket: Socket, { host, ca, certificate, key }: SyslogReceiver): Promise<Socket> {
  return new Promise((resolve, reject) => {
    let secure: TLSSocket;
    try {
      secure = connectTls({
        socket,
        host,
        ...(isIP(host) === 0 ? { servername: host } : {}),
        ...(ca === undefined ? {} : { ca }),
        ...(certificate === undefined ? {} : { cert: certificate }),
        ...(key === undefined ? {} : { key }),
      });
    } catch {
      return reject(tlsError("CERTIFICATE_UNREADABLE")); // thrown at once for invalid PEM
    }
    secure.once("secureConnect", () => resolve(secure));
    secure.once("close", () => reject(tlsError("")));
    secure.on("error", (error: NodeJS.ErrnoException) => reject(tlsError(error.code ?? "")));
  });
}

/** A certificate does not get better by waiting. */
function tlsError(code: string): SatelliteError {
  const isCertificate = /CERT|ALTNAME|SELF_SIGNED|ISSUER/.test(code);
  return new SatelliteError(
    isCertificate ? "permanent" : "not_sent",
    "tls_failed",
    `no TLS connection was made${/^[A-Z0-9_]{1,64}$/.test(code) ? ` (${code})` : ""}`,
  );
}

function exchange(socket: Socket, frames: readonly Buffer[]): Promise<void> {
  return new Promise((resolve, reject) => {
    let isWritten = false;
    let isTaken = false;
    const lost = (): void =>
      reject(
        new SatelliteError("ambiguous", "connection_lost", "the connection ended before all of it was taken"),
      );
    socket.once("error", lost);
    // An end before this one has not seen all of it.
    socket.once("end", () => {
      isTaken = isWritten;
    });
    socket.once("close", (isFailed: boolean) => (isTaken && !isFailed ? resolve() : lost()));
    socket.resume(); // what it says is of no use, but would hold back its end
    socket.end(Buffer.concat(frames), () => {
      isWritten = true;
    });
  });
}
