/**
 * The only import of nodemailer: messages as MIME, and conversations in SMTP (RFC 5321) over sockets that the egress guard has opened.
 *
 *   greeting -> EHLO -> (STARTTLS -> EHLO) -> (AUTH) -> MAIL, RCPT, DATA, message -> ... -> closed
 *
 * nodemailer resolves no name and opens no connection, file or URL here. To leave: any writer of MIME, and the dialogue
 * above. Loaded with the first message.
 *
 * Limits: 30 s until a session is open, replies of 64 KiB.
 */
import type { Socket } from "node:net";
import { Readable } from "node:stream";
import type SMTPConnection from "nodemailer/lib/smtp-connection";
import type { SmtpConfig } from "./config.ts";
import type { Mailbox } from "./mail_address.ts";
import type { MailMessage } from "./mail_message.ts";

const OPEN_MS = 30_000;
const REPLY_BYTES_MAX = 64 * 1024;
const CLOSE_MS = 1_000;

/** What a failed step reports: the members of nodemailer's errors that are read. */
export interface SmtpFault {
  /** `EAUTH`, `ETLS`, `ESOCKET`, ... */
  readonly code?: string | undefined;
  /** The cause: the system's or TLS's. */
  readonly originalCode?: string | undefined;
  readonly responseCode?: number | undefined;
  readonly response?: string | undefined;
  readonly message?: string | undefined;
  readonly recipient?: string | undefined;
  /** When every recipient was refused. */
  readonly rejectedErrors?: readonly SmtpFault[] | undefined;
}

export interface SmtpSent {
  readonly accepted: readonly string[];
  readonly rejectedErrors: readonly SmtpFault[];
  readonly response: string;
}

/** One conversation; one message at a time. Rejects with `SmtpFault`. */
export interface SmtpSession {
  readonly isOpen: boolean;
  send(from: string, to: readonly string[], message: Readable): Promise<SmtpSent>;
  /** While it rests it does not keep the process from ending. */
  rest(): void;
  wake(): void;
  /** May be called twice. */
  close(): void;
}

/** Over a socket that is connected and the session's from now on. Rejects with `SmtpFault`, and the socket is closed then. */
export async function openSmtp(socket: Socket, config: SmtpConfig, helo: string): Promise<SmtpSession> {
  const { default: Connection } = await import("nodemailer/lib/smtp-connection");
  const connection = new Connection({ ...optionsOf(config), connection: socket, name: helo });
  const broken = new Promise<never>((_resolve, reject) => connection.on("error", reject));
  broken.catch(() => undefined); // later on the sender gets the error
  const close = (): void => {
    connection.close();
    socket.destroySoon();
  };
  try {
    const connected = new Promise<void>((resolve, reject) =>
      connection.connect((error) => (error ? reject(error) : resolve())),
    );
    await Promise.race([connected, broken]);
    await signIn(connection, config);
  } catch (error) {
    close();
    throw error;
  }
  return {
    get isOpen() {
      return !connection.destroyed && !socket.destroyed;
    },
    send: (from, to, message) => sendOver(connection, from, to, message),
    rest: () => void socket.unref(),
    wake: () => void socket.ref(),
    close,
  };
}

function optionsOf({ host, port, security = securityAt(port), ca, timeout_ms }: SmtpConfig): object {
  const isVerified = security === "tls" || security === "starttls";
  return {
    host,
    port,
    secure: security === "tls",
    requireTLS: security === "starttls",
    ignoreTLS: security === "none",
    opportunisticTLS: security === "opportunistic",
    tls: { minVersion: "TLSv1.2", rejectUnauthorized: isVerified, ...(ca === undefined ? {} : { ca }) },
    connectionTimeout: OPEN_MS,
    greetingTimeout: OPEN_MS,
    socketTimeout: timeout_ms,
    socketCloseTimeout: CLOSE_MS,
    maxResponseSize: REPLY_BYTES_MAX,
    logger: false,
  };
}

function securityAt(port: number): "tls" | "starttls" {
  return port === 465 ? "tls" : "starttls";
}

function signIn(connection: SMTPConnection, { username, password, security }: SmtpConfig): Promise<void> {
  if (username === undefined || password === undefined) return Promise.resolve();
  if (!connection.secure || security === "opportunistic" || security === "none")
    return Promise.reject({ code: "ETLS", message: "no TLS" } satisfies SmtpFault);
  return new Promise((resolve, reject) =>
    connection.login({ credentials: { user: username, pass: password } }, (error) =>
      error ? reject(error) : resolve(),
    ),
  );
}

function sendOver(
  connection: SMTPConnection,
  from: string,
  to: readonly string[],
  message: Readable,
): Promise<SmtpSent> {
  return new Promise((resolve, reject) =>
    connection.send({ from, to: [...to] }, message, (error, info) => {
      if (error) reject(error);
      else
        resolve({
          accepted: info.accepted,
          rejectedErrors: info.rejectedErrors ?? [],
          response: info.response,
        });
    }),
  );
}

/**
 * The message as it is sent, without its Bcc. `onFault` receives what an attachment threw, since the stream's own
 * error is nodemailer's by then.
 */
export async function composeMail(
  message: MailMessage,
  options: { readonly onFault?: (error: unknown) => void; readonly dkim?: SmtpConfig["dkim"] } = {},
): Promise<Readable> {
  const { default: MailComposer } = await import("nodemailer/lib/mail-composer");
  const { onFault = () => undefined, dkim } = options;
  const composer = new MailComposer({
    from: nodemailerAddress(message.from),
    to: message.to.map(nodemailerAddress),
    cc: message.cc.map(nodemailerAddress),
    replyTo: message.replyTo.map(nodemailerAddress),
    subject: message.subject,
    messageId: message.messageId,
    date: new Date(message.wallMs),
    text: message.text ?? (message.html === undefined ? "" : undefined),
    html: message.html,
    headers: Object.entries(message.headers).map(([key, value]) => ({ key, value })),
    attachments: message.attachments.map(({ filename, contentType, contentId, open }) => ({
      filename,
      contentType,
      ...(contentId === undefined ? {} : { cid: contentId }),
      content: Readable.from(told(open(), onFault)),
    })),
    newline: "win",
    disableFileAccess: true,
    disableUrlAccess: true,
  });
  const stream = composer.compile().createReadStream();
  if (dkim === undefined) return stream;
  const { default: DKIM } = await import("nodemailer/lib/dkim");
  const { domain, selector, private_key } = dkim;
  return new DKIM({ domainName: domain, keySelector: selector, privateKey: private_key }).sign(stream);
}

/** As an object, so that nothing in it is read as a list. */
function nodemailerAddress({ name, address }: Mailbox): { readonly name: string; readonly address: string } {
  return { name: name ?? "", address };
}

async function* told(
  content: AsyncIterable<Uint8Array>,
  onFault: (error: unknown) => void,
): AsyncGenerator<Uint8Array> {
  try {
    yield* content;
  } catch (error) {
    onFault(error);
    throw new Error("an attachment cannot be read", { cause: error });
  }
}
