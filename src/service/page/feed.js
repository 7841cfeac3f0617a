/**
 * The feed of snapshots: server-sent events read with fetch, because EventSource cannot send a key.
 *
 *   connecting -> live -> lost -> (wait 1, 2, 4, ... 15 s) -> connecting        refused: the key is not accepted
 *
 * Silence of eight seconds counts as lost: the server sends something every second.
 */
const SILENCE_MS = 8_000;
const WAIT_MS_MAX = 15_000;

/** Calls back until `stop`: `onEvent(name, data)`, `onState(state, detail)`. */
export class Feed {
  #options;
  #after = null;
  #abort = null;
  #retry = null;
  #silence = null;
  #failures = 0;
  #isStopped = false;
  #onOnline = () => {
    if (this.#retry !== null) this.#restart();
  };

  constructor(options) {
    this.#options = options;
    window.addEventListener("online", this.#onOnline);
    this.#connect();
  }

  /** Shows the tasks after another one, null for the newest. */
  show(after) {
    this.#after = after;
    this.#restart();
  }

  stop() {
    this.#isStopped = true;
    window.removeEventListener("online", this.#onOnline);
    this.#drop();
  }

  #restart() {
    this.#drop();
    this.#connect();
  }

  #drop() {
    clearTimeout(this.#retry);
    clearTimeout(this.#silence);
    this.#retry = null;
    this.#abort?.abort();
    this.#abort = null;
  }

  async #connect() {
    const abort = new AbortController();
    this.#abort = abort;
    const isCurrent = () => this.#abort === abort && !this.#isStopped;
    let waitMs;
    try {
      this.#heard(abort);
      const query = this.#after === null ? "" : `?after=${encodeURIComponent(this.#after)}`;
      const response = await fetch(`v0/operator/events${query}`, {
        headers: { authorization: `Bearer ${this.#options.key}`, accept: "text/event-stream" },
        cache: "no-store",
        signal: abort.signal,
      });
      if (!isCurrent()) return;
      if (response.status === 401 || response.status === 403) {
        this.stop();
        this.#options.onState("refused", response.status);
        return;
      }
      if (!response.ok || response.body === null) {
        waitMs = Number(response.headers.get("retry-after")) * 1_000;
        throw new Error(`status ${response.status}`);
      }
      await this.#read(response.body, abort, isCurrent);
    } catch {
      // the network, a stop of the server, silence: tried again below
    }
    if (isCurrent()) this.#lost(waitMs);
  }

  async #read(body, abort, isCurrent) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done || !isCurrent()) return;
      this.#heard(abort);
      text += value;
      const events = text.split("\n\n");
      text = events.pop() ?? "";
      for (const event of events) this.#told(event);
    }
  }

  #told(event) {
    const lines = event.split("\n");
    const field = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
    const data = field("data");
    if (data === undefined) return;
    this.#failures = 0;
    this.#options.onState("live");
    this.#options.onEvent(field("event") ?? "message", JSON.parse(data));
  }

  #heard(abort) {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => abort.abort(), SILENCE_MS);
  }

  #lost(askedMs) {
    clearTimeout(this.#silence);
    const waitMs = askedMs > 0 ? askedMs : Math.min(WAIT_MS_MAX, 1_000 * 2 ** this.#failures);
    this.#failures += 1;
    this.#options.onState("lost", waitMs);
    this.#retry = setTimeout(() => this.#restart(), waitMs);
  }
}
