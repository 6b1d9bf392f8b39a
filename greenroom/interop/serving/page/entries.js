// The entries of a conversation, as elements.

import { MOST_SHOWN, textOf } from "./conversation.js";
import { Blocks, drawMarkdown, legible, visible } from "./markdown.js";
import { Component, html } from "./standalone.module.js";

const MOST_CHARACTERS = 20_000; // of an input, a result or a diff
const MOST_LINES = 400; // of a diff

const blocks = new WeakMap(); // what is read of the text of an entry

export const behind = new Set(); // entries of which the next frame reads more

export function clip(text, limit = MOST_CHARACTERS) {
  const left = text.length - limit;
  return left > 0 ? `${text.slice(0, limit)}\n… ${left.toLocaleString("en")} more characters` : text;
}

export const quiet = (text) => text && html`<p class="quiet">${text}</p>`;

// A value of others, as prose and as what a person decides on.
export const told = (value, limit) => legible(clip(textOf(value), limit));
export const shown = (value, limit) => visible(clip(textOf(value), limit));

// What can't be drawn leaves the rest of the page as it is.
export class Safe extends Component {
  componentDidCatch(error) {
    this.setState({ error });
  }

  render({ children }, { error }) {
    return error ? html`<p class="error">This can't be shown: ${visible(String(error))}</p>` : children;
  }
}

export class Entry extends Component {
  shouldComponentUpdate({ entry, version }) {
    return entry !== this.props.entry || version !== this.props.version;
  }

  render({ entry, select }) {
    return (VIEWS[entry.kind] ?? VIEWS.note)(entry, select);
  }
}

// What is folded is drawn when somebody looks at it.
class Folded extends Component {
  state = { isOpen: false };

  toggle = ({ target }) => this.setState({ isOpen: target.open });

  render({ look, title, body }, { isOpen }) {
    return html`<details class=${`entry ${look}`} onToggle=${this.toggle}>
      <summary>${title}</summary>${isOpen && body()}
    </details>`;
  }
}

const VIEWS = { __proto__: null,
  input: (entry) => html`<article class="entry input">
    <h3>${entry.sender ? legible(entry.sender) : "You"}${entry.isQueued ? " (waits)" : ""}</h3>
    <p class="plain">${told(entry.text)}</p>
    ${entry.pictures.map(drawPicture)}
  </article>`,
  text: drawText,
  thinking: (entry) => html`<${Folded} look="thinking" title=${entry.isOpen ? "Thinking …" : "Thought"}
    body=${() => html`<p class="plain">${told(entry.text)}</p>`} />`,
  picture: (entry) => html`<div class="entry">${drawPicture(entry.source)}</div>`,
  tool: drawTool,
  agent: (entry, select) => html`<div class="entry agent">
    <button onClick=${() => select(entry.session)}>Agent ${legible(entry.name)}</button>
    <span class="quiet">${entry.end || "works"}${entry.calls ? `, ${entry.calls} calls` : ""}</span>
    <p class="plain">${told(entry.last, 500)}</p>
  </div>`,
  note: (entry) => html`<p class="entry note">${told(entry.text, 2_000)}</p>`,
  error: (entry) => html`<p class="entry error"><b>Error:</b> ${told(entry.text, 2_000)}</p>`,
};

function drawText(entry) {
  if (!blocks.has(entry)) blocks.set(entry, new Blocks());
  const found = blocks.get(entry);
  const drawn = drawMarkdown(found.read(entry.text));
  if (found.isBehind) behind.add(entry);
  return html`<article class="entry text" aria-busy=${String(entry.isOpen)}>${drawn}</article>`;
}

export function drawPicture(source) {
  if (!source) return quiet("[a picture that is not shown]");
  return html`<img class="picture" src=${source} alt="a picture in the conversation" />`;
}

function drawTool(entry) {
  const { info } = entry;
  const failed = entry.isError ? entry.status || "failed" : "";
  const state = entry.result ? failed || "done" : entry.status || "runs";
  const subject = textOf(info?.details).split("\n", 1)[0] || describe(entry.input);
  const action = [textOf(info?.action), subject].filter(Boolean).join(": ");
  const title = html`<b>${visible(entry.name)}</b> ${shown(action, 200)} <span class="quiet">${state}</span>`;
  const body = () => html`
    ${info?.diff ? drawDiff(info.diff) : html`<pre><code>${shown(textOf(info?.details) || pretty(entry.input))}</code></pre>`}
    ${entry.result ? entry.result.map(drawResult) : entry.output && html`<pre><code>${legible(entry.output)}</code></pre>`}`;
  return html`<${Folded} look=${`tool${failed ? " failed" : ""}`} title=${title} body=${body} />`;
}

function drawResult({ text, picture }) {
  if (picture) return drawPicture(picture);
  return looksLikeDiff(text) ? drawDiff(text) : html`<pre><code>${told(text)}</code></pre>`;
}

const looksLikeDiff = (text) => /^--- .*\n\+\+\+ .*\n@@ /m.test(text.slice(0, 4_000));

const describe = (input) => textOf(Object.values(input ?? {}).find((value) => typeof value === "string"));

export const pretty = (value) => (typeof value === "string" ? value : JSON.stringify(value, null, 2) ?? "");

export function drawDiff(diff) {
  const lines = clip(textOf(diff)).split("\n");
  const kinds = { __proto__: null, "+": "added", "-": "removed", "@": "place" };
  const drawn = lines.slice(0, MOST_LINES).map((line, at) => {
    const kind = at < 2 && /^(---|\+\+\+) /.test(line) ? "place" : kinds[line[0]] ?? "";
    return html`<span class=${`line ${kind}`}>${visible(line)}${"\n"}</span>`;
  });
  const left = lines.length - drawn.length;
  return html`<pre class="diff"><code>${drawn}${left > 0 && `… ${left} more lines`}</code></pre>`;
}

// The newest entries, and a button for what is above them.
export function drawEntries(talk, earlier, showEarlier, select) {
  const first = Math.max(0, talk.entries.length - MOST_SHOWN - earlier);
  const shown = talk.entries.slice(first);
  return html`
    ${first > 0 && html`<button key="earlier" onClick=${showEarlier}>Show earlier (${first})</button>`}
    ${shown.map((entry) => html`<${Safe} key=${entry.key}><${Entry} entry=${entry} version=${entry.version} select=${select} /><//>`)}
  `;
}
