// How the page speaks with its server: requests, and one stream of events that survives cuts.

const TOKEN = "greenroom.token";
const SILENCE = 40_000; // ms without a byte, of which the server sends some every 15 s
const LONGEST_PAUSE = 3_000; // ms between two tries
const PATIENCE = 1_000; // ms after which a request may lack a connection
const SLICE = 20; // ms of work before others have their turn

export const readHash = () => new URLSearchParams(location.hash.slice(1));

export function writeHash(fields) {
  history.replaceState(null, "", fields.size ? `#${fields}` : location.pathname);
}

export function takeToken() {
  // The address keeps no token: it would stand in the history, and be copied with the address.
  const given = readHash();
  if (given.has("token")) {
    keepToken(given.get("token"));
    given.delete("token");
    writeHash(given);
  }
  return sessionStorage.getItem(TOKEN) ?? "";
}

export const keepToken = (token) => sessionStorage.setItem(TOKEN, token);

export const newId = () => `web-${crypto.getRandomValues(new Uint32Array(4)).join("-")}`;

export const at = (...parts) => `api/sessions/${parts.map(encodeURIComponent).join("/")}`;

export class RefusedError extends Error {
  constructor(status, { error, hint } = {}) {
    super([error || `the server answered ${status}`, hint].filter(Boolean).join("; "));
    this.status = status;
  }
}

async function ask(path, options) {
  const headers = { authorization: `Bearer ${takeToken()}`, "content-type": "application/json" };
  const how = { ...options, headers, cache: "no-store", referrerPolicy: "no-referrer" };
  const reply = await fetch(path, how).catch(() => {
    throw new Error("the server can't be reached");
  });
  if (!reply.ok) throw new RefusedError(reply.status, await reply.json().catch(() => ({})));
  return reply;
}

// A browser has six connections to a server, for all tabs together. If each is a tab's stream, a
// request waits for ever: so after a while this tab puts its stream down until there is an answer.
let stream = null;

export async function request(path, body, read = (reply) => reply.json()) {
  let held = null;
  const cut = new AbortController();
  const giveUp = setTimeout(() => cut.abort(), SILENCE);
  const pause = setTimeout(() => {
    held = stream;
    held?.pause();
  }, PATIENCE);
  try {
    const options = body && { method: "POST", body: JSON.stringify(body) };
    const reply = await ask(path, { ...options, signal: cut.signal });
    clearTimeout(giveUp);
    return await read(reply);
  } finally {
    clearTimeout(giveUp);
    clearTimeout(pause);
    held?.resume();
  }
}

// The events of one session, from a position on. `take(name, data, id)` gets each; `say(status)`
// hears connecting, live, lost, offline, and `fail(error)` what can't be mended by trying again.
export class Stream {
  holds = 0;
  isOver = false;
  cut = null;
  wake = () => {};

  constructor(session, { take, say, fail, position }) {
    Object.assign(this, { session, take, say, fail, position });
    stream = this;
  }

  close() {
    this.isOver = true;
    if (stream === this) stream = null;
    this.cut?.abort();
    this.wake();
  }

  pause() {
    this.holds += 1;
    this.cut?.abort();
  }

  resume() {
    this.holds -= 1;
    this.wake();
  }

  async run() {
    let tries = 0;
    while (!this.isOver) {
      if (this.holds) {
        this.say("connecting");
        await this.wait(60_000);
        continue;
      }
      this.say(tries ? "lost" : "connecting");
      try {
        await this.read(() => (tries = 0));
      } catch (error) {
        if (error instanceof RefusedError && [401, 403, 404].includes(error.status)) {
          this.close();
          this.fail(error);
          return;
        }
      }
      if (this.isOver || this.holds) continue;
      this.say(navigator.onLine ? "lost" : "offline");
      tries += 1;
      await this.wait(Math.min(250 * 2 ** tries, LONGEST_PAUSE));
    }
  }

  wait(ms) {
    return new Promise((resolve) => {
      setTimeout(resolve, ms); // which changes nothing once it was woken
      this.wake = resolve;
    });
  }

  async read(begun) {
    const cut = (this.cut = new AbortController());
    let timer = setTimeout(() => cut.abort(), SILENCE);
    // Position 0.0 is of no agent: the server answers it with how the session is now.
    const where = new URLSearchParams({ session: this.session, after: this.position ?? "0.0" });
    try {
      const reply = await ask(`api/stream?${where}`, { signal: cut.signal });
      this.say("live");
      const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
      const events = new Events();
      for (;;) {
        const { done, value } = await reader.read();
        if (done || cut.signal.aborted) return;
        begun();
        clearTimeout(timer);
        timer = setTimeout(() => cut.abort(), SILENCE);
        await this.takeAll(events.feed(value), cut.signal);
      }
    } finally {
      clearTimeout(timer);
      cut.abort();
    }
  }

  async takeAll(events, signal) {
    let since = performance.now();
    for (const { name, data, id } of events) {
      if (signal.aborted) return;
      this.take(name, JSON.parse(data));
      if (id) this.position = id;
      if (performance.now() - since > SLICE) {
        await new Promise((resolve) => setTimeout(resolve));
        since = performance.now();
      }
    }
  }
}

// Reads server-sent events, wherever the network has cut them.
export class Events {
  parts = [];

  *feed(text) {
    const tail = (this.parts.at(-1) ?? "").slice(-1);
    this.parts.push(text);
    if (!(tail + text).includes("\n\n")) return;
    const whole = this.parts.join("");
    const end = whole.lastIndexOf("\n\n");
    this.parts = [whole.slice(end + 2)];
    for (const block of whole.slice(0, end).split("\n\n")) {
      const event = { name: "", data: "", id: "" };
      for (const line of block.split("\n")) {
        const [, field, value] = line.match(/^(\w+): ?(.*)/s) ?? []; // a comment has no field
        if (field) event[field === "event" ? "name" : field] = value; // ours is one line of data
      }
      if (event.data) yield event;
    }
  }
}
