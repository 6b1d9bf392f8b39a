// The page: which session is shown, what is typed, and how it is drawn.

import { Stream, RefusedError, at, keepToken, newId, readHash, request, takeToken, writeHash } from "./connection.js";
import { Conversation, pictureOf, takeStep } from "./conversation.js";
import { Safe, behind, drawEntries, drawPicture, quiet, told } from "./entries.js";
import { budget, legible } from "./markdown.js";
import { PANELS, Panel, describeState, describeUsage, drawPlans, drawTree } from "./panels.js";
import { Question } from "./question.js";
import { html, render } from "./standalone.module.js";

const MOST_PICTURES = 7_000_000; // characters of base64, of the 8 MB that a request may have
const SENT_AGAIN = 1_000; // ms until an input is sent again
const LISTED_AGAIN = 2_000; // ms between two looks at the list

const STATUSES = { __proto__: null,
  connecting: "Connecting …", live: "Connected",
  lost: "Connection lost, reconnecting …", offline: "Offline: waiting for the network",
};

const page = {
  agents: null, hosts: false, agent: "", sessions: [], after: null, query: "", isListOpen: false,
  session: "", talk: null, tree: null, status: "none", needsToken: false, notice: "",
  pictures: [], outbox: [], panel: null, earlier: 0, stream: null, kept: null,
};

let isWaiting = false;
let follows = true; // whether the end of the conversation is in sight, and is kept there
let lastTop = 0;

const byId = (id) => document.getElementById(id);
const canTalk = () => page.agents?.length > 0;

function draw() {
  if (isWaiting) return;
  isWaiting = true;
  requestAnimationFrame(() => {
    isWaiting = false;
    budget.left = budget.each;
    render(html`<${App} />`, document.body);
    for (const entry of behind) page.talk?.change(entry, {});
    if (behind.size) draw();
    behind.clear();
    const log = byId("log");
    if (log && follows) log.scrollTop = log.scrollHeight;
  });
}

function onScroll({ target }) {
  // Heights are estimates until something is in sight: only who goes up leaves the end.
  if (target.scrollHeight - target.scrollTop - target.clientHeight < 40) follows = true;
  else if (target.scrollTop < lastTop) follows = false;
  lastTop = target.scrollTop;
}

function say(error) {
  if (error instanceof RefusedError && error.status === 401) {
    page.needsToken = true;
    leave();
  }
  page.notice = error?.message ?? "";
  draw();
}

const guarded = (work) => async (...given) => {
  try {
    await work(...given);
  } catch (error) {
    say(error);
  }
  draw();
};

let listing = null;

const list = guarded(async (more = false) => {
  const { query } = page;
  const fields = { limit: 50, q: query, after: more ? page.after : "" };
  const found = await request(`api/sessions?${new URLSearchParams(fields)}`);
  if (query !== page.query) return; // somebody types on
  page.sessions = more ? [...page.sessions, ...found.sessions] : found.sessions;
  page.after = found.after;
});

function listSoon(wait = LISTED_AGAIN) {
  listing ??= setTimeout(() => {
    listing = null;
    list();
  }, wait);
}

function leave() {
  page.stream?.close();
  Object.assign(page, { stream: null, status: "none" });
}

function select(session) {
  if (session === page.session && page.stream) return;
  leave();
  const fresh = { talk: null, tree: null, panel: null, earlier: 0, isListOpen: false, notice: "" };
  Object.assign(page, fresh, { session });
  follows = true;
  writeHash(new URLSearchParams(session && { session }));
  document.title = "Greenroom";
  if (session) connect();
  draw();
}

function connect(position) {
  if (document.hidden || page.stream || !page.session) return;
  const stream = new Stream(page.session, {
    position,
    take: (name, data) => page.stream === stream && take(name, data),
    say(status) {
      if (page.stream !== stream && page.stream) return;
      page.status = status;
      if (status === "live") sendWaiting();
      draw();
    },
    fail(error) {
      if (page.stream === stream) leave();
      say(error);
    },
  });
  page.stream = stream;
  stream.run();
}

function take(name, data) {
  try {
    takeEvent(name, data);
  } catch (error) {
    page.talk?.note(`something can't be shown: ${error}`, "error");
  }
  draw();
}

function takeEvent(name, data) {
  if (name === "snapshot") show(data);
  else if (name === "tree") page.tree = data.tree;
  else if (name === "sessions") {
    const others = data.changed.filter((each) => each !== page.session);
    if (others.length || data.more || !page.sessions.some((each) => each.id === page.session)) listSoon();
  } else if (name === "" && page.talk) {
    if (page.talk.take(data)) {
      // A turn that was joined in the middle is shown as it is on record, once it is over.
      leave();
      connect();
    }
    if (page.talk.lacksPlan) readSteps();
  }
}

function show(snapshot) {
  const before = page.talk;
  page.talk = new Conversation(snapshot);
  if (before?.id === page.talk.id) page.talk.takeOver(before);
  for (const waiting of page.outbox) {
    if (waiting.session === page.session) page.talk.inputs.get(waiting.id) ?? queue(waiting);
  }
  if (page.talk.title) document.title = `${legible(page.talk.title)} – Greenroom`;
  sendWaiting();
  readSteps(); // which no snapshot has
}

// The chunks tell of what changes, the record of what was there before.
const readSteps = guarded(async () => {
  const { session } = page;
  page.talk.lacksPlan = false;
  const { steps } = await request(at(session, "steps"));
  if (page.session !== session) return;
  for (const { kind, data } of steps) takeStep(page.talk, kind, data);
  page.talk.lacksPlan = false;
});

const start = guarded(async () => {
  ({ agents: page.agents, hosts: page.hosts } = await request("api/agents"));
  page.agent ||= page.agents[0]?.name ?? "";
  page.needsToken = false;
  await list();
  // Where there is one session and no agent to talk to, that one is what the page is for.
  const first = canTalk() ? "" : page.sessions[0]?.id;
  const wanted = readHash().get("session") ?? first;
  if (wanted) select(wanted);
});

function queue({ id, text, pictures }) {
  const entry = page.talk.add("input", { id, sender: "", text, pictures: pictures.map(pictureOf), isQueued: true });
  page.talk.inputs.set(id, entry);
  follows = true;
}

const send = guarded(async (event) => {
  event?.preventDefault();
  const field = byId("message");
  const text = field.value;
  if ((!text.trim() && !page.pictures.length) || page.isSending) return;
  page.notice = "";
  page.isSending = true;
  try {
    if (!page.session) {
      const made = await request("api/sessions", { agent: page.agent });
      page.sessions.unshift({ id: made.id, title: text.slice(0, 60), state: { kind: "idle" } });
      select(made.id);
    }
    const waiting = { session: page.session, id: newId(), text, pictures: page.pictures };
    field.value = "";
    page.pictures = [];
    page.outbox.push(waiting);
    if (page.talk) queue(waiting);
  } finally {
    page.isSending = false;
  }
  await sendWaiting();
});

let isSending = false;
let again = null;

// Under our id: the server takes each once. After the snapshot: an answer before it could be missed.
const sendWaiting = guarded(async () => {
  while (page.talk && !isSending && page.outbox.length) {
    const { session, id, text, pictures } = page.outbox[0];
    const blocks = [...(text.trim() ? [{ type: "text", text }] : []), ...pictures];
    isSending = true;
    try {
      await request(at(session, "input"), { id, content: pictures.length ? blocks : text });
      page.outbox.shift();
      page.notice = "";
    } catch (error) {
      if (error instanceof RefusedError) {
        page.outbox.shift();
        const entry = page.talk?.inputs.get(id);
        if (entry) page.talk.change(entry, { isQueued: false, sender: "You (not sent)" });
      }
      clearTimeout(again);
      again = setTimeout(sendWaiting, SENT_AGAIN);
      throw error;
    } finally {
      isSending = false;
    }
  }
});

const stop = guarded(() => request(at(page.session, "interrupt"), {}));

function startNew() {
  select("");
  requestAnimationFrame(() => byId("message")?.focus());
}

const paste = guarded(async (event) => {
  const files = [...(event.clipboardData?.files ?? [])].filter((file) => file.type.startsWith("image/"));
  if (!files.length) return;
  event.preventDefault();
  for (const file of files) {
    const block = { type: "image", media_type: file.type, data: await encode(file) };
    const size = page.pictures.reduce((sum, each) => sum + each.data.length, block.data.length);
    if (size > MOST_PICTURES) throw new Error("the pictures are too large: 5 MB together at most");
    if (!pictureOf(block)) throw new Error(`a picture is PNG, JPEG, GIF or WebP, not ${file.type}`);
    page.pictures.push(block);
  }
});

const encode = (file) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result.split(",")[1] ?? "");
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(file);
});

const openPanel = guarded(async (name, query = "") => {
  page.notice = "";
  if (page.panel?.name === name && !query) {
    page.panel = null;
    return;
  }
  const panel = (page.panel = { name });
  draw();
  if (name === "memory" && !query) {
    panel.data = {};
    return;
  }
  try {
    panel.data = await request((name === "hosts" ? "api/hosts" : at(page.session, name)) + query);
  } catch (error) {
    panel.error = error.message;
  }
});

function remember(event) {
  event.preventDefault();
  const q = new FormData(event.target).get("q").trim();
  if (q) openPanel("memory", `?${new URLSearchParams({ q })}`);
}

const save = guarded(async ({ name, version }) => {
  const path = `${at(page.session, "artifacts", name)}?version=${version}`;
  const content = await request(path, undefined, (reply) => reply.arrayBuffer());
  // Without a type of its own no browser opens it.
  const address = URL.createObjectURL(new Blob([content], { type: "application/octet-stream" }));
  const link = document.createElement("a");
  Object.assign(link, { href: address, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
});

function onKey(event) {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
}

function onAnswer(id, error) {
  const { activeElement } = document;
  if (activeElement === document.body || activeElement.closest(".question")) {
    byId("message").focus(); // what had the focus goes
  }
  page.talk?.pending.delete(id);
  say(error);
}

const enter = guarded(async (event) => {
  event.preventDefault();
  keepToken(byId("token").value.trim());
  await start();
});

function App() {
  if (page.needsToken) return html`<${Door} />`;
  return html`
    <header>
      <button class="lists" aria-expanded=${page.isListOpen} aria-controls="sessions"
        onClick=${() => { page.isListOpen = !page.isListOpen; draw(); }}>Sessions</button>
      <h1>Greenroom</h1>
      <p role="status" class=${`quiet status ${page.status}`}>${STATUSES[page.status]}</p>
    </header>
    <nav id="sessions" aria-label="Sessions" class=${page.isListOpen ? "open" : ""}>${drawList()}</nav>
    <main>
      ${page.session ? drawHead() : html`<h2>New session</h2>`}
      ${page.panel && html`<${Safe} key=${`panel ${page.panel.name}`}><${Panel} panel=${page.panel} remember=${remember} save=${save} /><//>`}
      ${page.talk && drawPlans(page.talk)}
      ${drawTree(page.tree, select)}
      <section id="log" role="log" aria-label="Conversation" tabindex="0" onScroll=${onScroll}>
        ${page.talk && drawEntries(page.talk, page.earlier, () => { page.earlier += 500; draw(); }, select)}
      </section>
      ${page.talk && drawQuestions()}
      ${drawNotice()}
      ${canTalk() ? drawForm() : quiet("This page shows only: answers are given elsewhere.")}
    </main>`;
}

const drawNotice = () => page.notice && html`<p class="error" role="alert">${told(page.notice)}</p>`;

function Door() {
  return html`<main class="door">
    <h1>Greenroom</h1>
    <p>Open the link that the server has printed, or give your token.</p>
    <form onSubmit=${enter}>
      <label for="token">Token</label>
      <input id="token" type="password" autocomplete="off" /> <button>Enter</button>
    </form>
    ${drawNotice()}
  </main>`;
}

function drawList() {
  const search = ({ target }) => {
    page.query = target.value.trim();
    listSoon(250);
  };
  return html`
    ${canTalk() && html`<button onClick=${startNew}>New session</button>`}
    <input type="search" aria-label="Search sessions" placeholder="Search" onInput=${search} />
    <ul>${page.sessions.map((each) => html`<li key=${each.id}>
      <button aria-current=${each.id === page.session ? "true" : "false"} onClick=${() => select(each.id)}>
        ${told(each.title) || legible(each.agent || each.id)}</button>
      <span class="quiet">${legible(describeState(each.id === page.talk?.id ? page.talk.state : each.state))}</span>
      ${quiet(told(each.snippet, 200))}
    </li>`)}</ul>
    ${page.after && html`<button onClick=${() => list(true)}>More</button>`}
    ${page.hosts && drawOpener("hosts")}`;
}

function drawOpener(name) {
  return html`<button key=${name} aria-expanded=${page.panel?.name === name}
    onClick=${() => openPanel(name)}>${PANELS[name].label}</button>`;
}

function drawHead() {
  const { talk } = page;
  const listed = page.sessions.find((each) => each.id === page.session);
  return html`<div class="head">
    <h2>${told(talk?.title || listed?.title || "Session")}</h2>
    <p class="quiet">${[talk?.agent, describeState(talk?.state), describeUsage(talk?.usage)].filter(Boolean).map(legible).join(" · ")}</p>
    <p class="buttons">
      ${canTalk() && Object.keys(PANELS).map((name) => name !== "hosts" && drawOpener(name))}
    </p>
  </div>`;
}

function drawQuestions() {
  const open = [...page.talk.pending.values()];
  return html`<div class="questions">
    ${open.slice(0, 5).map((asked) => html`<${Safe} key=${`${asked.request_id} ${asked.digest}`}><${Question} asked=${asked}
      session=${page.session} onAnswer=${onAnswer} canAnswer=${canTalk()} /><//>`)}
    ${open.length > 5 && quiet(`${open.length - 5} more questions`)}
  </div>`;
}

function drawForm() {
  const drop = (picture) => {
    page.pictures = page.pictures.filter((each) => each !== picture);
    draw();
  };
  return html`<form class="say" onSubmit=${send}>
    ${!page.session && page.agents.length > 1 && html`<label>Agent${" "}
      <select onChange=${({ target }) => (page.agent = target.value)}>
        ${page.agents.map((each) => html`<option value=${each.name}>${told(each.name)}</option>`)}
      </select></label>`}
    ${page.pictures.map((each, index) => html`<span class="pasted" key=${each.data.length + index}>
      ${drawPicture(pictureOf(each))}<button type="button" onClick=${() => drop(each)}>Remove the picture</button></span>`)}
    <label for="message" class="hidden">Message</label>
    <textarea id="message" rows="2" placeholder="Say something; Enter sends" onKeyDown=${onKey} onPaste=${paste}></textarea>
    <button>Send</button>
    ${page.talk && !page.talk.isIdle && html`<button type="button" onClick=${stop}>Stop</button>`}
  </form>`;
}

document.addEventListener("visibilitychange", () => {
  if (document.hidden) {
    // A hidden tab needs no connection, of which there are few.
    page.kept = page.stream?.position;
    leave();
  } else {
    connect(page.talk ? page.kept : undefined);
    list();
  }
  draw();
});

addEventListener("online", () => page.stream?.wake());
addEventListener("hashchange", () => {
  const hash = readHash();
  if (hash.has("token")) {
    leave();
    start();
  } else if (hash.has("session")) select(hash.get("session"));
});

document.querySelector("noscript").remove();
if (takeToken()) start();
else page.needsToken = true;
draw();
