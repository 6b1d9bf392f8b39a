// A conversation as the page knows it: a snapshot, and what its chunks have changed since.
//
// An entry is changed in place, and then has another `version`, so that only it is drawn again.

const LONGEST_OUTPUT = 20_000; // characters of a tool's running output
const PICTURES = /^image\/(png|jpeg|gif|webp)$/;
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/;

export const MOST_SHOWN = 200; // entries that are drawn, and agents

// Tables of words of others have no prototype: `__proto__` is a word, too.

let lastKey = 0;

export function textOf(value) {
  return typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value);
}

// Only bytes of a picture are shown: nothing is ever loaded for a text of a model.
export function pictureOf(block) {
  if (!sources.has(block)) {
    const isPicture = PICTURES.test(block.media_type ?? "") && BASE64.test(block.data ?? "");
    sources.set(block, isPicture ? `data:${block.media_type};base64,${block.data}` : "");
  }
  return sources.get(block);
}

const sources = new WeakMap(); // the addresses of pictures, which are long

export class Conversation {
  entries = [];
  pending = new Map();
  tools = new Map();
  inputs = new Map();
  agents = new Map();
  steps = new Map();
  plan = null;
  todos = null;
  lacksPlan = false;
  open = null; // the entry that text is added to
  isSilent = false; // whether no chunk of the turn shows what it did

  constructor(snapshot) {
    this.id = snapshot.id;
    this.agent = textOf(snapshot.agent);
    this.title = textOf(snapshot.title);
    this.state = snapshot.state ?? { kind: "idle" };
    this.usage = snapshot.usage ?? {};
    for (const message of snapshot.messages ?? []) this.addMessage(message);
    if (snapshot.partial) this.addText("text", snapshot.partial);
    for (const asked of snapshot.pending ?? []) this.ask(asked);
    // Of a snapshot in the middle of a reply some blocks are on record, and some are not.
    this.isTorn = !this.isIdle;
  }

  // Take from an earlier view of this session what no record has: notes, errors, plans.
  takeOver(before) {
    const places = new Map(this.entries.map((entry, at) => [markOf(entry), at]));
    const others = new Map();
    let place = -1;
    for (const entry of before.entries) {
      const mark = markOf(entry);
      if (!mark) others.set(place, [...(others.get(place) ?? []), entry]);
      else if (places.has(mark)) {
        place = places.get(mark);
        places.delete(mark);
        this.entries[place].key = entry.key; // what is unfolded stays so
      }
    }
    const after = (at) => others.get(at) ?? [];
    this.entries = [...after(-1), ...this.entries.flatMap((entry, at) => [entry, ...after(at)])];
    this.todos ??= before.todos;
    Object.assign(this, { plan: before.plan, steps: before.steps, agents: before.agents });
  }

  get isIdle() {
    return ["idle", "done", "failed"].includes(this.state.kind);
  }

  add(kind, fields) {
    lastKey += 1;
    const entry = { kind, key: lastKey, version: 0, ...fields };
    this.entries.push(entry);
    return entry;
  }

  addMessage(message) {
    const blocks = message.content ?? [];
    if (message.role === "user") {
      const isResult = (block) => block.type === "tool_result";
      const said = blocks.filter((block) => !isResult(block));
      for (const { tool_use_id: id, content, is_error: isError } of blocks.filter(isResult)) {
        this.endTool(id, content, isError);
      }
      if (said.length) this.addInput(message.id ?? "", message.sender ?? "", said);
      return;
    }
    for (const block of blocks) {
      if (block.type === "text") this.add("text", { text: textOf(block.text), isOpen: false });
      else if (block.thinking) this.add("thinking", { text: textOf(block.thinking), isOpen: false });
      else if (block.type === "tool_use") this.startTool(block.id, block.name, block.input);
      else if (block.type === "image") this.add("picture", { source: pictureOf(block) });
    }
  }

  addInput(id, sender, blocks) {
    const text = blocks.map((block) => textOf(block.text)).filter(Boolean).join("\n\n");
    const pictures = blocks.filter((block) => block.type === "image").map(pictureOf);
    const known = id && this.inputs.get(id);
    if (known) {
      this.change(known, { isQueued: false });
      // It has been said now, below what came while it waited.
      this.entries.splice(this.entries.indexOf(known), 1);
      this.entries.push(known);
      return known;
    }
    const entry = this.add("input", { id, sender: textOf(sender), text, pictures, isQueued: false });
    if (id) this.inputs.set(id, entry);
    return entry;
  }

  change(entry, fields) {
    Object.assign(entry, fields);
    entry.version += 1;
  }

  addText(kind, text) {
    if (this.open?.kind !== kind) {
      this.closeText();
      this.open = this.add(kind, { text: "", isOpen: true });
    }
    this.change(this.open, { text: this.open.text + textOf(text) });
  }

  completeText(kind, text) {
    if (this.open?.kind !== kind) this.addText(kind, "");
    this.change(this.open, { text: textOf(text) });
    this.closeText();
  }

  closeText() {
    if (this.open) this.change(this.open, { isOpen: false });
    this.open = null;
  }

  startTool(id, name, input, info) {
    const known = this.tools.get(id);
    const fields = { name: textOf(name), input: input ?? {}, info: info ?? known?.info };
    if (known) this.change(known, fields);
    else this.tools.set(id, this.add("tool", { id, output: "", result: null, ...fields }));
    if (name === "Todo" && Array.isArray(input?.todos)) this.todos = input.todos;
  }

  endTool(id, content, isError, status) {
    const entry = this.tools.get(id);
    const result = (content ?? []).map((block) => ({
      text: block.type === "text" ? textOf(block.text) : "",
      picture: block.type === "image" ? pictureOf(block) : "",
    }));
    if (entry) this.change(entry, { result, isError: Boolean(isError), status: status ?? "" });
  }

  ask(asked) {
    this.pending.set(asked.request_id, { ...asked, shownAt: performance.now() });
  }

  note(text, kind = "note") {
    if (text) this.add(kind, { text: textOf(text) });
  }

  // Take a chunk; return whether the conversation has to be read again to be whole.
  take(chunk) {
    const handler = HANDLERS[chunk.type];
    handler?.(this, chunk);
    if (chunk.type === "turn_start") this.isSilent = true;
    else if (["text_complete", "tool_start"].includes(chunk.type)) this.isSilent = false;
    return chunk.type === "done" && (this.isTorn || this.isSilent);
  }
}

// What an entry is on record, to find it there again; nothing if it is on none.
function markOf({ kind, id, text, source }) {
  if (["note", "error", "agent"].includes(kind)) return "";
  return `${kind} ${id || text || source}`;
}

const HANDLERS = { __proto__: null,
  turn_start: (talk, chunk) =>
    talk.addInput(chunk.input_id, chunk.sender ?? "", [{ type: "text", text: chunk.text ?? "" }]),
  text_delta: (talk, chunk) => talk.addText("text", chunk.text),
  text_complete: (talk, chunk) => talk.completeText("text", chunk.text),
  thinking_delta: (talk, chunk) => talk.addText("thinking", chunk.text),
  thinking_complete: (talk, chunk) => talk.completeText("thinking", chunk.text),
  tool_start(talk, chunk) {
    talk.closeText();
    talk.startTool(chunk.id, chunk.name, chunk.input, chunk.info);
  },
  tool_progress(talk, chunk) {
    const entry = talk.tools.get(chunk.id);
    if (!entry) return;
    talk.change(entry, { output: (entry.output + textOf(chunk.output)).slice(-LONGEST_OUTPUT) });
  },
  tool_end: (talk, chunk) =>
    talk.endTool(chunk.id, chunk.result?.content, chunk.is_error, chunk.result?.status),
  permission_request: (talk, chunk) => talk.ask(chunk),
  permission_response(talk, chunk) {
    talk.pending.delete(chunk.request_id);
    const said = chunk.decision === "allow" ? "allowed" : "denied";
    if (chunk.cancelled) return;
    talk.note([`${textOf(chunk.tool_name)}: ${said}`, chunk.by && `by ${textOf(chunk.by)}`,
      chunk.message && `(${textOf(chunk.message)})`].filter(Boolean).join(" "));
  },
  subagent_spawned(talk, chunk) {
    if (chunk.detached) return;
    const name = textOf(chunk.name || chunk.agent_type);
    const fields = { session: chunk.session_id, name, last: "", calls: 0, end: "" };
    talk.agents.set(chunk.session_id, talk.add("agent", fields));
  },
  subagent_output(talk, chunk) {
    let inner = chunk;
    while (inner?.type === "subagent_output") inner = inner.chunk;
    if (["permission_request", "permission_response"].includes(inner?.type)) talk.take(inner);
    const entry = talk.agents.get(chunk.session_id);
    if (!entry) return;
    if (inner.type === "tool_start") {
      talk.change(entry, { calls: entry.calls + 1, last: textOf(inner.name) });
    } else if (inner.type === "text_complete") {
      talk.change(entry, { last: textOf(inner.text).slice(0, 200) });
    }
  },
  subagent_complete(talk, chunk) {
    const entry = talk.agents.get(chunk.session_id);
    const last = textOf(chunk.result).slice(0, 2_000);
    if (entry) talk.change(entry, { end: textOf(chunk.status), last });
  },
  state_change: (talk, chunk) => (talk.state = chunk.state),
  usage_report: (talk, chunk) => (talk.usage = chunk.total ?? talk.usage),
  error: (talk, chunk) =>
    talk.note([textOf(chunk.message), textOf(chunk.hint)].filter(Boolean).join("; "), "error"),
  done(talk, chunk) {
    talk.closeText();
    if (chunk.status === "interrupted") talk.note("interrupted");
    else if (chunk.status === "waiting") talk.note("waits for an answer");
    else if (chunk.status === "failed" && talk.entries.at(-1)?.kind !== "error") {
      talk.note(chunk.error || "the turn failed", "error");
    }
    for (const entry of talk.tools.values()) {
      if (!entry.result && !talk.pending.size) talk.change(entry, { status: "ended" });
    }
  },
  restarted(talk, chunk) {
    talk.closeText();
    talk.note(`started again: ${textOf(chunk.error) || "it had returned"}`);
  },
  exited(talk, chunk) {
    talk.closeText();
    talk.pending.clear();
    talk.state = { kind: "idle" }; // an input starts it again
    if (chunk.error) talk.note(chunk.error, "error");
  },
  custom(talk, chunk) {
    const data = chunk.data ?? {};
    if (chunk.kind === "reply.restarted" && talk.open) {
      talk.entries.splice(talk.entries.indexOf(talk.open), 1);
      talk.open = null;
    }
    if (chunk.kind === "input.joined") HANDLERS.turn_start(talk, data);
    else if (!takeStep(talk, chunk.kind, data)) talk.note(chunk.text);
  },
};

// Take a step of a plan or a workflow, as a chunk or a record has it; return whether it is one.
export function takeStep(talk, kind, data) {
  STEPS[kind]?.(talk, data);
  return kind in STEPS;
}

const STEPS = { __proto__: null, "plan.step": takePlanStep, "workflow.node": takeNode };

function takePlanStep(talk, step) {
  if (step.type === "begin" || step.type === "revise") {
    const before = new Map(talk.plan?.steps.map((each) => [each.id, each.status]));
    const steps = (step.plan?.subtasks ?? []).map((each) => ({
      id: textOf(each.id),
      goal: textOf(each.goal || each.tool),
      status: textOf(step.states?.[each.id]?.status || before.get(each.id) || "pending"),
    }));
    talk.plan = { goal: textOf(step.plan?.goal), steps };
  } else if (step.type === "move") {
    talk.lacksPlan ||= !talk.plan; // it began before the page came
    talk.plan ??= { goal: "", steps: [] };
    const known = talk.plan.steps.find((each) => each.id === step.id);
    if (known) known.status = textOf(step.status);
  }
}

function takeNode(talk, { node, item, status }) {
  const id = item === undefined || item === null ? textOf(node) : `${textOf(node)}[${item}]`;
  talk.steps.delete(id);
  talk.steps.set(id, textOf(status));
  if (talk.steps.size > MOST_SHOWN) talk.steps.delete(talk.steps.keys().next().value);
}
