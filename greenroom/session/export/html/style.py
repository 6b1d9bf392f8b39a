"""How a page looks: a calm column of text, light and dark, on any width and on paper."""

STYLE = """
:root {
  color-scheme: light dark;
  --paper: #fcfbf9; --ink: #23211e; --quiet: #69635a; --line: #e5e1d9; --tint: #f4f1eb;
  --accent: #0b6b58; --good: #14532d; --good-tint: #e2f2e4; --bad: #a11b14; --bad-tint: #fbe7e4;
  --late: #8a5200;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --paper: #17181a; --ink: #e4e1da; --quiet: #a39d92; --line: #303236; --tint: #202225;
    --accent: #6fcdb6; --good: #aee5bb; --good-tint: #14291b; --bad: #ff9b90; --bad-tint: #351b1a;
    --late: #f0b55c;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; scroll-padding-top: 1rem; }
body {
  margin: 0 auto; max-width: 47rem; padding: clamp(1.25rem, 5vw, 4rem) clamp(1rem, 4vw, 2rem);
  background: var(--paper); color: var(--ink);
  font: 1rem/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif;
  overflow-wrap: anywhere;
}
code, pre, .call summary b, .facts dd {
  font-family: ui-monospace, "SF Mono", "Cascadia Code", Menlo, Consolas, "DejaVu Sans Mono", monospace;
}
code, pre { font-size: 0.84em; }
pre code { font-size: 1em; }
a { color: inherit; text-underline-offset: 0.2em; text-decoration-color: var(--line); }
a:hover { text-decoration-color: currentColor; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 3px; border-radius: 3px; }
.skip { position: absolute; left: -99rem; }
.skip:focus { left: 1rem; top: 1rem; background: var(--paper); padding: 0.5rem 1rem; }

header { border-bottom: 1px solid var(--line); padding-bottom: 1.5rem; }
h1 {
  margin: 0 0 1.25rem; font-size: clamp(1.5rem, 1.1rem + 2vw, 2.1rem); line-height: 1.2;
  letter-spacing: -0.015em; font-weight: 650; text-wrap: balance;
}
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(12.5rem, 1fr)); gap: 0.8rem 1.5rem; margin: 0; }
.facts dt { color: var(--quiet); font-size: 0.75rem; }
.facts dd { margin: 0; font-size: 0.8rem; line-height: 1.45; }

nav { border-bottom: 1px solid var(--line); padding: 0.35rem 0; font-size: 0.9rem; }
nav summary { color: var(--quiet); padding: 0.4rem 0; }
nav ol { margin: 0.5rem 0; padding-left: 2rem; color: var(--quiet); }
nav li { padding-left: 0.25rem; margin: 0.2rem 0; }
nav a { color: var(--ink); }

summary { cursor: pointer; }
section { margin: 2.25rem 0 0; }
h2, section > h3, section > h4, section > h5, section > h6 {
  display: flex; gap: 0.6rem; align-items: baseline; margin: 0 0 0.4rem;
  font-size: 0.82rem; font-weight: 650; line-height: 1.4; color: var(--accent);
}
section > :is(h2, h3, h4, h5, h6) a { text-decoration: none; }
section > :is(h2, h3, h4, h5, h6) small { font-weight: 400; font-size: 0.75rem; color: var(--quiet); }
.user .message {
  border-left: 3px solid var(--accent); background: var(--tint);
  border-radius: 0 6px 6px 0; padding: 0.7rem 1rem;
}
.message + .message { margin-top: 0.75rem; }
.user .message + .message { margin-top: 0.4rem; }
.plain { white-space: pre-wrap; }
.message:target { outline: 2px solid var(--accent); outline-offset: 0.4rem; border-radius: 4px; }
.note { margin: 0.6rem 0 0; color: var(--quiet); font-size: 0.75rem; }
.label, .file { margin: 0.6rem 0 0.3rem; color: var(--quiet); font-size: 0.8rem; }
footer { margin-top: 3.5rem; border-top: 1px solid var(--line); padding-top: 1rem; color: var(--quiet); font-size: 0.8rem; }

.prose > :first-child { margin-top: 0; }
.prose > :last-child { margin-bottom: 0; }
.prose + .prose, .message > * + * { margin-top: 0.75rem; }
.prose p, .prose ul, .prose ol, .prose pre, .prose blockquote, .prose .wide { margin: 0.75rem 0; }
.prose li { margin: 0.2rem 0; }
.prose li > p { margin: 0.3rem 0; }
.prose h4, .prose h5, .prose h6 { margin: 1.4rem 0 0.4rem; line-height: 1.3; font-size: 1rem; }
.prose h4 { font-size: 1.15rem; }
.prose blockquote { margin-left: 0; padding-left: 1rem; border-left: 3px solid var(--line); color: var(--quiet); }
.prose :not(pre) > code { background: var(--tint); border-radius: 4px; padding: 0.1em 0.3em; }
.prose hr { border: 0; border-top: 1px solid var(--line); margin: 1.5rem 0; }
.address { color: var(--quiet); font-size: 0.88em; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 0.92em; }
th, td { border-bottom: 1px solid var(--line); padding: 0.35rem 1rem 0.35rem 0; text-align: left; vertical-align: top; }

pre {
  margin: 0.3rem 0; padding: 0.7rem 0.9rem; background: var(--tint); border-radius: 6px;
  white-space: pre-wrap; line-height: 1.5; tab-size: 4;
}
.language { float: right; margin-left: 1rem; color: var(--quiet); font-family: system-ui, sans-serif; font-size: 0.72rem; }
.diff { padding: 0.5rem 0; }
.diff > * { display: block; padding: 0 0.9rem; text-decoration: none; }
.diff .place { color: var(--quiet); }
.diff ins { background: var(--good-tint); color: var(--good); }
.diff del { background: var(--bad-tint); color: var(--bad); }

.call, .subagent { border: 1px solid var(--line); border-radius: 8px; font-size: 0.9rem; }
.aside { font-size: 0.9rem; }
.message > :is(.call, .subagent) + :is(.call, .subagent) { margin-top: 0.4rem; }
summary { display: flex; gap: 0.6rem; align-items: baseline; list-style: none; }
summary::-webkit-details-marker { display: none; }
.call > summary, .subagent > summary { padding: 0.4rem 0.8rem; }
summary::before {
  content: ""; flex: none; width: 0.4rem; height: 0.4rem; align-self: center; color: var(--quiet);
  border: solid; border-width: 0 1.5px 1.5px 0; transform: rotate(-45deg);
}
[open] > summary::before { transform: rotate(45deg); }
.call > summary b { font-size: 0.84em; }
.subagent > summary { font-size: 0.85rem; }
summary b { font-weight: 650; }
.call > summary code, .subagent > summary span:first-of-type {
  flex: 1; min-width: 0; overflow: hidden; text-overflow: ellipsis; white-space: nowrap; color: var(--quiet);
}
.status { flex: none; margin-left: auto; font-size: 0.75rem; color: var(--quiet); }
.failed > summary .status { color: var(--bad); font-weight: 600; }
.interrupted > summary .status, .open > summary .status { color: var(--late); font-weight: 600; }
.aside > summary, .input > summary { color: var(--quiet); }
.inside { padding: 0 0.8rem 0.8rem; }
.inside dl:not(.facts) { margin: 0; }
.inside dl:not(.facts) dt { float: left; clear: left; margin: 0.2rem 0.75rem 0 0; color: var(--quiet); font-size: 0.8rem; }
.inside dl:not(.facts) dd { clear: left; margin: 0; }
.inside dl:not(.facts) .short { clear: none; padding-top: 0.1rem; }
.input { margin-top: 0.5rem; }
.input > summary { padding: 0.2rem 0; font-size: 0.8rem; }
.aside > .inside { padding: 0.4rem 0 0 1.1rem; }
.aside .prose { color: var(--quiet); }
.subagent > .inside { padding-top: 0.4rem; }
.subagent section { margin-top: 1.25rem; }
figure { margin: 0.5rem 0; }
img { display: block; max-width: 100%; height: auto; max-height: 32rem; border-radius: 6px; border: 1px solid var(--line); }
figcaption { margin-top: 0.3rem; color: var(--quiet); font-size: 0.8rem; }

@media (max-width: 30rem) {
  .facts { grid-template-columns: 1fr 1fr; }
  .user .message { padding: 0.6rem 0.8rem; }
}
@media print {
  :root { --paper: #fff; --ink: #000; --quiet: #555; --line: #ccc; --tint: #f6f6f6; color-scheme: light; }
  body { max-width: none; padding: 0; font-size: 10.5pt; }
  nav, .skip { display: none; }
  details::details-content { content-visibility: visible; display: block; }
  section > :is(h2, h3, h4, h5, h6) { break-after: avoid; }
  .diff, .user .message { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .diff > *, img { break-inside: avoid; }
}
"""
"""The one style sheet of a page; its policy allows no other."""
