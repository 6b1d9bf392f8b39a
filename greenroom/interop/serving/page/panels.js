// What the page shows beside the conversation: agents, plans, and tables that are read on demand.

import { Conversation, MOST_SHOWN, takeStep, textOf } from "./conversation.js";
import { quiet, shown, told } from "./entries.js";
import { drawTable, legible } from "./markdown.js";
import { html } from "./standalone.module.js";

export const PANELS = {
  __proto__: null,
  steps: { label: "Plan", draw: drawSteps },
  trace: { label: "Trace", draw: drawTrace },
  tools: { label: "Tools", draw: drawTools },
  artifacts: { label: "Artifacts", draw: drawArtifacts },
  memory: { label: "Memory", draw: drawMemory },
  hosts: { label: "Hosts", draw: drawHosts },
};

const cell = (value) => shown(value, 1_000);

export function describeUsage(usage = {}) {
  const tokens = (usage.input_tokens ?? 0) + (usage.output_tokens ?? 0);
  const cost = typeof usage.cost === "number" && `$${usage.cost.toFixed(4)}`;
  return [tokens && `${tokens.toLocaleString("en")} tokens`, cost].filter(Boolean).join(", ");
}

export function describeState(state) {
  const words = textOf(state?.kind).replaceAll("_", " ");
  return state?.detail ? `${words}: ${textOf(state.detail).slice(0, 80)}` : words;
}

export function drawTree(tree, select) {
  const rows = [];
  const walk = (node, depth) => {
    if (rows.length >= MOST_SHOWN) return;
    const words = [describeState(node.state), describeUsage(node.usage)].filter(Boolean).join(" · ");
    rows.push(html`<li key=${node.session_id} style=${{ marginLeft: `${Math.min(depth, 8)}rem` }}>
      <button onClick=${() => select(node.session_id)}>${told(node.name || node.agent_type)}</button>
      <span class="quiet">${legible(words)}</span>
    </li>`);
    for (const child of node.children ?? []) walk(child, depth + 1);
  };
  if (tree) walk(tree, 0);
  return rows.length > 1 && html`<details class="tree" open><summary>Agents</summary><ul>${rows}</ul></details>`;
}

const MARKS = { __proto__: null, completed: "☑", executing: "▶", in_progress: "▶", failed: "✗", blocked: "⊘" };

const drawStep = ([text, status]) =>
  html`<li><span aria-hidden="true">${MARKS[status] ?? "☐"} </span>${told(text, 300)}${" "}
    <span class="quiet">${legible(status.replaceAll("_", " "))}</span></li>`;

export function drawPlans(talk) {
  const list = (title, rows) => html`<details class="plan" open>
    <summary>${told(title, 200)}</summary><ul>${rows.slice(0, MOST_SHOWN).map(drawStep)}</ul>
  </details>`;
  const { todos, plan, steps } = talk;
  return [
    todos?.length > 0 && list("To do", todos.map((each) => [textOf(each?.content), textOf(each?.status)])),
    plan && list(`Plan ${plan.goal}`, plan.steps.map((each) => [`${each.id} ${each.goal}`, each.status])),
    steps.size > 0 && list("Steps", [...steps]),
  ];
}

function drawSteps({ steps = [] }) {
  const talk = new Conversation({});
  for (const { kind, data } of steps) takeStep(talk, kind, data);
  return steps.length ? drawPlans(talk) : table([], []);
}

export function Panel({ panel, remember, save }) {
  const { label, draw } = PANELS[panel.name];
  return html`<section class="panel" aria-label=${label} id="panel">
    <h3>${label}</h3>
    ${panel.error ? quiet(legible(panel.error)) : panel.data ? draw(panel.data, { save }) : "…"}
    ${panel.name === "memory" && html`<form onSubmit=${remember}>
      <label>Look for <input type="search" name="q" /></label> <button>Look</button></form>`}
  </section>`;
}

function table(heads, rows) {
  if (!rows.length) return quiet("Nothing yet.");
  return drawTable(heads, rows.slice(0, 500));
}

function drawTools({ tools = [] }) {
  const rows = tools.map((each) => [cell(each.name), each.calls, each.failures, `${each.seconds} s`]);
  return table(["tool", "calls", "failures", "time"], rows);
}

function drawMemory({ entries }) {
  return entries && table(["entry"], entries.map((each) => [cell(each?.text ?? each?.entry?.text ?? each)]));
}

function drawArtifacts({ artifacts = [] }, { save }) {
  const rows = artifacts.map((each) => [
    html`<button onClick=${() => save(each)}>Save ${cell(each.name)}</button>`,
    each.version, cell(each.media_type), `${each.size.toLocaleString("en")} bytes`,
  ]);
  return table(["file", "version", "type", "size"], rows);
}

function drawHosts(hosts) {
  const rows = hosts.map((each) => [each.name, each.state, `${each.agents} of ${each.max_agents}`,
    each.types.join(", "), each.capabilities.join(", "), each.address].map(cell));
  return table(["host", "state", "agents", "types", "capabilities", "address"], rows);
}

function drawTrace({ spans = [] }) {
  const first = Math.min(...spans.map((span) => span.start));
  const last = Math.max(...spans.map((span) => span.end || span.start));
  const whole = Math.max(last - first, 1);
  const rows = spans.map((span) => {
    const end = span.end || last;
    const style = {
      left: `${(100 * (span.start - first)) / whole}%`,
      width: `${Math.max((100 * (end - span.start)) / whole, 0.5)}%`,
    };
    return [
      html`<span class=${span.error ? "error" : ""}>${shown(span.name, 120)}</span>`,
      html`<span class="bar"><span style=${style}></span></span>`,
      `${((end - span.start) / 1e6).toFixed(0)} ms`,
    ];
  });
  return table(["what", "when", "time"], rows);
}
