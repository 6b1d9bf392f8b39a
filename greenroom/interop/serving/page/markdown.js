// Markdown of a model, as elements: never as HTML, and nothing in it loads or leads anywhere.

import { Lexer } from "./marked.esm.js";
import { Component, html } from "./standalone.module.js";

const LONGEST = 6_000; // characters that are read at a time
const LONGEST_LINE = 1_500; // characters within a block that may have marks
const DEEPEST = 12; // lists and quotes inside each other
const MOST_CELLS = 2_000;
const NESTED = /^(?:[ \t]*(?:>|[-*+][ \t]|\d{1,9}[.)][ \t])){13}/m; // takes long, and says nothing

// Invisible characters, and those that change the order of others.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Co}\p{Cs}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0]/gu;
const NEEDED = /[\t\n\u00ad\u200c\u200d]/;

// For prose: what hides becomes a sign.
export function legible(text) {
  return text.replace(HIDDEN, (sign) => (NEEDED.test(sign) ? sign : "\ufffd"));
}

// For what a person decides on: each hidden character is written out.
export function visible(text) {
  return text.replace(HIDDEN, (sign) =>
    sign === "\n" || sign === "\t" ? sign : `\\u{${sign.codePointAt(0).toString(16)}}`,
  );
}

// How many characters may still be read in this frame: a page that stands still can't be used.
export const budget = { left: 0, each: 8_000 };

// The blocks of a text that grows: what can't change any more is read once.
export class Blocks {
  done = [];
  rest = "";
  tail = [];
  seen = ""; // of the text
  isBehind = false;

  read(text) {
    if (!text.startsWith(this.seen)) Object.assign(this, new Blocks());
    const end = Math.min(text.length, this.seen.length + Math.max(budget.left, 0));
    if (end > this.seen.length) {
      budget.left -= end - this.seen.length;
      this.rest += text.slice(this.seen.length, end).replace(/\r\n?/g, "\n");
      this.seen = text.slice(0, end);
      this.settle();
    }
    this.isBehind = end < text.length;
    return [...this.done, ...this.tail];
  }

  settle() {
    // Some blocks at a time: what is read twice is never more than these.
    while (this.rest.length > LONGEST) {
      const fenced = readFence(this.rest);
      if (fenced && !fenced.isClosed) {
        this.tail = [fenced];
        return;
      }
      const found = fenced ? [fenced] : readBlocks(this.rest.slice(0, LONGEST));
      const cut = this.rest.lastIndexOf("\n", LONGEST - 1) + 1 || LONGEST;
      if (found.length > 1) found.pop(); // it may go on
      else if (!fenced) found.splice(0, 1, ...readBlocks(this.rest.slice(0, cut)));
      this.finish(found);
    }
    this.tail = readBlocks(this.rest);
    // The last block, and a list above it, may still change.
    if (this.tail.length > 3) this.finish(this.tail.splice(0, this.tail.length - 3));
  }

  finish(tokens) {
    this.done.push(...tokens);
    this.rest = this.rest.slice(lengthOf(tokens));
  }
}

const lengthOf = (tokens) => tokens.reduce((sum, token) => sum + token.raw.length, 0);

// A block of code may be long, and is nothing but its lines.
function readFence(text) {
  const [, fence] = text.match(/^(`{3,}|~{3,})[^`\n]*\n/) ?? [];
  if (!fence) return null;
  const end = text.slice(fence.length).match(new RegExp(`\\n ? ? ?${fence}${fence[0]}*[ \t]*(?:\n|$)`));
  const raw = end ? text.slice(0, fence.length + end.index + end[0].length) : text;
  const code = text.slice(text.indexOf("\n") + 1, end ? fence.length + end.index : text.length);
  return { type: "code", raw, text: code, isClosed: Boolean(end) };
}

function readBlocks(text) {
  try {
    if (NESTED.test(text)) throw new RangeError("too deep");
    const lexer = new Lexer();
    lexer.blockTokens(text, lexer.tokens);
    for (const { src, tokens } of lexer.inlineQueue) {
      // What a long line means takes long to find out, and a hostile one far too long.
      if (src.length <= LONGEST_LINE) lexer.inlineTokens(src, tokens);
      else tokens.push({ type: "text", raw: src, text: src });
    }
    const tokens = [...lexer.tokens];
    // It takes some characters for others: then lengths are not those of the text.
    if (lengthOf(tokens) === text.length) return tokens;
  } catch {
    // A text that it can't read is still a text.
  }
  return [{ type: "plain", raw: text, text }];
}

class Block extends Component {
  shouldComponentUpdate({ token }) {
    return token.raw !== this.props.token.raw || token.type !== this.props.token.type;
  }

  render({ token }) {
    return drawBlock(token, 0);
  }
}

export function drawMarkdown(blocks) {
  return blocks.map((token, at) => html`<${Block} key=${at} token=${token} />`);
}

function drawBlock(token, depth) {
  const draw = depth > DEEPEST ? drawPlain : BLOCKS[token.type] ?? drawPlain;
  return draw(token, depth);
}

const drawPlain = (token) => html`<p class="plain">${legible(token.raw)}</p>`;

const within = (tokens, depth) => (tokens ?? []).map((token) => drawBlock(token, depth + 1));

const BLOCKS = { __proto__: null,
  space: () => null,
  hr: () => html`<hr />`,
  paragraph: (token, depth) => html`<p>${drawInline(token, depth)}</p>`,
  text: (token, depth) => html`<span>${drawInline(token, depth)}</span>`,
  heading: (token, depth) => html`<p class=${`heading h${token.depth}`}>${drawInline(token, depth)}</p>`,
  code: (token) => html`<pre><code>${legible(token.text)}</code></pre>`,
  blockquote: (token, depth) => html`<blockquote>${within(token.tokens, depth)}</blockquote>`,
  list: (token, depth) => {
    const items = token.items.map((item) => html`<li>${within(item.tokens, depth)}</li>`);
    return token.ordered ? html`<ol start=${Number(token.start) || 1}>${items}</ol>` : html`<ul>${items}</ul>`;
  },
  checkbox: (token) => html`<span>${token.checked ? "☑ " : "☐ "}</span>`,
  table: (token, depth) => {
    if (token.header.length * (token.rows.length + 1) > MOST_CELLS) return drawPlain(token);
    const cells = (row) => row.map((cell) => drawInline(cell, depth));
    return drawTable(cells(token.header), token.rows.map(cells));
  },
};

export function drawTable(heads, rows) {
  return html`<table>
    <thead><tr>${heads.map((head) => html`<th scope="col">${head}</th>`)}</tr></thead>
    <tbody>${rows.map((row) => html`<tr>${row.map((cell) => html`<td>${cell}</td>`)}</tr>`)}</tbody>
  </table>`;
}

function drawInline(token, depth) {
  // The words of a token, as they were written: the lexer escapes nothing.
  if (!token.tokens) return legible(token.text ?? token.raw ?? "");
  if (depth > DEEPEST) return legible(token.raw ?? "");
  return token.tokens.map((each) => (INLINE[each.type] ?? drawInline)(each, depth + 1));
}

const INLINE = { __proto__: null,
  br: () => html`<br />`,
  strong: (token, depth) => html`<strong>${drawInline(token, depth)}</strong>`,
  em: (token, depth) => html`<em>${drawInline(token, depth)}</em>`,
  del: (token, depth) => html`<del>${drawInline(token, depth)}</del>`,
  codespan: (token) => html`<code>${legible(token.text)}</code>`,
  // An address is shown, so that nobody is led where a text only pretends to lead.
  link: (token, depth) => {
    const isBare = token.text === token.href || `mailto:${token.text}` === token.href;
    return html`<span>${drawInline(token, depth)}${isBare ? "" : ` (${visible(token.href)})`}</span>`;
  },
  image: (token) => html`<span>[${legible(token.text)}] (${visible(token.href)})</span>`,
  checkbox: BLOCKS.checkbox,
};
