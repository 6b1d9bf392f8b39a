// A question of an agent, with all that a person needs to decide it.

import { at, request } from "./connection.js";
import { textOf } from "./conversation.js";
import { drawDiff, pretty, quiet, shown } from "./entries.js";
import { Component, html } from "./standalone.module.js";

const MOST_CHARACTERS = 200_000; // of what would run
const TOO_SOON = 400; // ms in which nobody can have read it: a click was meant for something else

export class Question extends Component {
  state = { isSent: false, isReady: false, error: "", values: {}, text: "" };

  componentDidMount() {
    const age = performance.now() - this.props.asked.shownAt;
    this.timer = setTimeout(() => this.setState({ isReady: true }), Math.max(TOO_SOON - age, 0));
  }

  componentWillUnmount() {
    clearTimeout(this.timer);
  }

  answer = async (decision, more = {}) => {
    if (this.state.isSent || !this.state.isReady) return;
    this.setState({ isSent: true, error: "" });
    const { asked, session, onAnswer } = this.props;
    try {
      if (asked.credential && decision === "allow") {
        await request(at(session, "credentials", asked.credential), { value: this.state.text });
      }
      const body = { decision, digest: asked.digest ?? "", ...more };
      await request(at(session, "permissions", asked.request_id), body);
      onAnswer(asked.request_id);
    } catch (error) {
      if (error.status === 409) onAnswer(asked.request_id, error);
      else this.setState({ isSent: false, error: error.message });
    }
  };

  render({ asked, canAnswer }, { isSent, isReady, error }) {
    const off = isSent || !isReady;
    const button = (label, decision, more) =>
      html`<button disabled=${off} onClick=${() => this.answer(decision, more)}>${label}</button>`;
    return html`<section class="question" role="alert">
      <h3>${asked.options ? "A question" : "May it do this?"}</h3>
      ${drawWho(asked)}
      <p><b>${shown(asked.tool_name)}</b>${": "}${shown(asked.action, 2_000)}</p>
      ${drawWhat(asked)}
      ${canAnswer && this.drawFields(asked)}
      ${error && html`<p class="error">${shown(error)}</p>`}
      <p class="buttons">${canAnswer ? this.drawButtons(asked, button) : "It waits for an answer elsewhere."}</p>
    </section>`;
  }

  drawButtons(asked, button) {
    const deny = button("Deny", "deny");
    if (asked.options) {
      const { text } = this.state;
      return [...asked.options.map((each) => button(shown(each), "allow", { message: each })),
        button("Answer", "allow", { message: text }), deny];
    }
    if (asked.may_have_run) {
      return [button("Allow: it did not run", "allow"),
        button("Deny: it has run", "deny", { input: { result: null } }), button("Deny: leave it out", "deny")];
    }
    if (asked.fields) return [button("Allow", "allow", { input: this.fieldValues() }), deny];
    const rule = shown((asked.remembers ?? []).map(textOf).join(", "));
    const remember = rule && button(`Allow for this session: ${rule}`, "allow", { remember: "session" });
    return [button("Allow", "allow"), remember, deny];
  }

  drawFields(asked) {
    const write = (event) => this.setState({ text: event.target.value });
    if (asked.credential) {
      return html`<label>The value of ${shown(asked.credential)}${" "}
        <input type="password" autocomplete="off" onInput=${write} /></label>`;
    }
    if (asked.options) return html`<label>Your answer <input type="text" onInput=${write} /></label>`;
    return fieldsOf(asked).map(([name, schema]) =>
      html`<label key=${name}>${shown(schema.title || name)}${" "}${this.drawField(name, schema)}
        <span class="quiet">${" "}${shown(schema.description, 500)}</span></label>`);
  }

  drawField(name, schema) {
    const set = (value) => this.setState(({ values }) => ({ values: { ...values, [name]: value } }));
    if (schema.type === "boolean") {
      return html`<input type="checkbox" checked=${schema.default === true} onChange=${(event) => set(event.target.checked)} />`;
    }
    if (Array.isArray(schema.enum)) {
      const options = schema.enum.map((each, at) => html`<option value=${at}>${shown(each)}</option>`);
      return html`<select onChange=${(event) => set(schema.enum[event.target.value])}><option></option>${options}</select>`;
    }
    const isNumber = ["number", "integer"].includes(schema.type);
    return html`<input type=${isNumber ? "number" : "text"} step="any" value=${textOf(schema.default)}
      onInput=${({ target }) => set(target.value === "" ? undefined : isNumber ? Number(target.value) : target.value)} />`;
  }

  fieldValues() {
    const defaults = fieldsOf(this.props.asked).map(([name, schema]) => [name, schema.default]);
    return { ...Object.fromEntries(defaults), ...this.state.values };
  }
}

// A schema may also be true, for anything.
const fieldsOf = (asked) =>
  Object.entries(asked.fields?.properties ?? {}).map(([name, schema]) => [name, Object(schema)]);

function drawWho(asked) {
  const place = [
    asked.host && `on ${textOf(asked.host)}`,
    asked.lineage?.length > 1 && `by ${asked.lineage.map(textOf).join(" › ")}`,
    asked.cwd && `in ${textOf(asked.cwd)}`,
  ].filter(Boolean);
  return quiet(shown(place.join(" ")));
}

const EFFECTS = { __proto__: null,
  reads: "reads", writes: "writes", names: "mentions", hosts: "contacts",
  changes: "changes", privileges: "with other rights", unchecked: "reads more than is known",
};

function drawWhat(asked) {
  const isPlain = !asked.options && !asked.fields && !asked.diff;
  const details = textOf(asked.details) || (isPlain ? pretty(asked.input ?? {}) : "");
  const effects = Object.entries(EFFECTS).filter(([key]) => asked.effects?.[key]?.length);
  const parts = (asked.parts ?? []).filter((part) => part.decision !== "allow");
  const undecided = asked.parts?.length > 1 ? parts : []; // one part has the reason of the whole
  return html`
    ${(asked.warnings ?? []).map((each) => html`<p class="error"><b>Mind:</b> ${shown(each)}</p>`)}
    ${details && details !== asked.diff && html`<pre><code>${shown(details, MOST_CHARACTERS)}</code></pre>`}
    ${asked.diff && drawDiff(asked.diff)}
    ${asked.runs_as && html`<p>runs as <code>${shown(asked.runs_as)}</code></p>`}
    ${asked.claim && quiet(`It says of itself: ${shown(asked.claim, 1_000)}`)}
    ${undecided.map((part) => quiet(`${shown(part.text, 500)}: ${shown(part.reason)}`))}
    ${effects.map(([key, word]) => html`<p>${word}: ${shown(asked.effects[key].map(textOf).join(", "), 2_000)}</p>`)}
    ${asked.sandbox && quiet(shown(`sandbox: ${textOf(asked.sandbox.mode)}, network ${textOf(asked.sandbox.network)}${
      asked.sandbox.lacking?.length ? `; not held: ${asked.sandbox.lacking.map(textOf).join(", ")}` : ""}`))}
    ${quiet(shown(asked.reason, 1_000))}
  `;
}
