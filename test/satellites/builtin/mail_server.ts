/** A mail server on loopback (smtp-server) that keeps what it takes and refuses what the test says. */
import type { AddressInfo } from "node:net";
import { SMTPServer, type SMTPServerOptions } from "smtp-server";
import { onTestFinished } from "vitest";

/** For localhost and 127.0.0.1; signs itself, until 2126. */
export const CERTIFICATE = `-----BEGIN CERTIFICATE-----
MIIBoTCCAUegAwIBAgIUEEKrjYDtQPiQTOzLyb9gHFvcci4wCgYIKoZIzj0EAwIw
FzEVMBMGA1UEAwwMcGVyaWdlZSB0ZXN0MCAXDTI2MTEyMjAwMDUzOVoYDzIxMjYx
MDI5MDAwNTM5WjAXMRUwEwYDVQQDDAxwZXJpZ2VlIHRlc3QwWTATBgcqhkjOPQIB
BggqhkjOPQMBBwNCAASsIQuNLczJvpYfyk/Tug5WeaJle4LAqsqPWdugfqgD44Pk
ivwFxWIgleTP0nvgEKoXghtByqLiKggGM6oaeGJGo28wbTAdBgNVHQ4EFgQU5wQ5
A4sRwltcvVKvfsXHnhEr2A0wHwYDVR0jBBgwFoAU5wQ5A4sRwltcvVKvfsXHnhEr
2A0wDwYDVR0TAQH/BAUwAwEB/zAaBgNVHREEEzARgglsb2NhbGhvc3SHBH8AAAEw
CgYIKoZIzj0EAwIDSAAwRQIhAJKPBCahf0xD7wfLCqZF0U8HcpA6/WqNQNbAJU6s
fTo4AiAPad/MY8/ZPjPEN+u7678h2PbX6AhLwsqUuYLhfPhL0Q==
-----END CERTIFICATE-----
`;
export const KEY = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgJsgJpQx90/+zZBOF
5xRfyiDn/BYMWM1y5bcAeohXDU2hRANCAASsIQuNLczJvpYfyk/Tug5WeaJle4LA
qsqPWdugfqgD44PkivwFxWIgleTP0nvgEKoXghtByqLiKggGM6oaeGJG
-----END PRIVATE KEY-----
`;

export interface TakenMail {
  readonly from: string;
  readonly to: readonly string[];
  readonly isSecure: boolean;
  readonly user: string | undefined;
  readonly raw: string;
}

export interface MailServer {
  readonly port: number;
  readonly taken: TakenMail[];
  /** Connections so far. */
  readonly connections: () => number;
  /** Names and passwords that were tried. */
  readonly logins: string[];
  /** What is refused from now on, by address, or `data` for the message itself: a status and a text. */
  readonly refusals: Map<string, readonly [status: number, text: string]>;
  /** Cuts every connection. */
  cut(): void;
}

const USER = "robot";
export const PASSWORD = "correct horse";

/** Plain SMTP with STARTTLS by default; closed after the test. */
export async function openMailServer({
  port: wantedPort = 0,
  ...options
}: SMTPServerOptions & { readonly port?: number } = {}): Promise<MailServer> {
  const taken: TakenMail[] = [];
  const logins: string[] = [];
  const refusals = new Map<string, readonly [number, string]>();
  let connections = 0;
  const refusal = (name: string): Error | undefined => {
    const [responseCode, text] = refusals.get(name) ?? [];
    return responseCode === undefined ? undefined : Object.assign(new Error(text), { responseCode });
  };
  const server = new SMTPServer({
    key: KEY,
    cert: CERTIFICATE,
    authOptional: true,
    disableReverseLookup: true,
    logger: false,
    closeTimeout: 10,
    onConnect: (_session, done) => {
      connections += 1;
      done();
    },
    onAuth: ({ username, password }, _session, done) => {
      logins.push(`${username} ${password}`);
      if (username === USER && password === PASSWORD) done(null, { user: username });
      else done(Object.assign(new Error("5.7.8 bad credentials"), { responseCode: 535 }));
    },
    onMailFrom: ({ address }, _session, done) => done(refusal(address)),
    onRcptTo: ({ address }, _session, done) => done(refusal(address)),
    onData: (stream, session, done) => {
      const chunks: Buffer[] = [];
      stream.on("data", (chunk: Buffer) => chunks.push(chunk));
      stream.on("end", () => {
        const error = refusal("data");
        const { mailFrom, rcptTo } = session.envelope;
        if (error === undefined)
          taken.push({
            from: mailFrom === false ? "" : mailFrom.address,
            to: rcptTo.map(({ address }) => address),
            isSecure: session.secure === true,
            user: typeof session.user === "string" ? session.user : undefined,
            raw: Buffer.concat(chunks).toString("latin1"),
          });
        done(error);
      });
    },
    ...options,
  });
  server.on("error", () => undefined); // connections that are cut
  await new Promise<void>((resolve) => server.listen(wantedPort, "127.0.0.1", resolve));
  onTestFinished(() => new Promise((resolve) => server.close(resolve)));
  const { port } = server.server.address() as AddressInfo;
  return {
    port,
    taken,
    logins,
    refusals,
    connections: () => connections,
    cut: () => {
      for (const connection of server.connections) connection.close();
    },
  };
}

/** The header of a message, unfolded. */
export function headerOf({ raw }: Pick<TakenMail, "raw">, name: string): string | undefined {
  const head = raw.slice(0, raw.indexOf("\r\n\r\n")).replace(/\r\n[ \t]+/g, " ");
  const line = head.split("\r\n").find((one) => one.toLowerCase().startsWith(`${name.toLowerCase()}:`));
  return line?.slice(name.length + 1).trim();
}
