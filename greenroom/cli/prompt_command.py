"""`greenroom prompt`: what a model was asked, what fills it, and how a model answers it again."""

import os
from collections import Counter

import trio

from greenroom.cli.command_options import PromptOptions
from greenroom.cli.run_setup import open_model_of_run
from greenroom.cli.settings_layers import read_run_settings
from greenroom.cli.stdio import OutputWriter, tell
from greenroom.cli.stored_sessions import load_session, open_store, traces_folder, working_folder
from greenroom.core import ConfigurationError, Message, ModelRequest
from greenroom.core._internal import serde, visible
from greenroom.observability import Span, prompt_sections, read_trace, semconv as names
from greenroom.observability._internal import list_requests, read_request
from greenroom.session import AgentSession

_VENDORS = {theirs: ours for ours, theirs in names.PROVIDERS.items()}


async def show_prompt(options: PromptOptions) -> int:
    """Print a request of a session, or about how many tokens each part of it takes.

    Raises:
        ConfigurationError: there is no such request, or the trace has no content.
        SessionError: the session is unknown, or has no trace.
        OSError: standard output can't be written.
    """
    _, span = await _find(options)
    output, request = OutputWriter(), read_request(span)
    if options.sections:
        found = prompt_sections(request)
        if options.json:
            await output.line(serde.encode([each._asdict() for each in found]))
            return 0
        whole = sum(each.tokens for each in found)
        rows = [(each.name, f"{each.tokens:,}") for each in found]
        await output.table(("part", "tokens (about)"), [*rows, ("together", f"{whole:,}")])
    elif options.json:
        await output.line(serde.encode(span.attributes))
    else:
        await output.text(visible("\n".join(_write_request(span, request))))
    return 0


async def replay_prompt(options: PromptOptions) -> int:
    """Send a request of a session to a model again, and print the replies; no tool runs.

    Raises:
        ConfigurationError: as `show_prompt`; or the model can't be opened.
        ModelError: the model gave no reply.
        SessionError: as `show_prompt`.
        OSError: standard output can't be written.
    """
    session, span = await _find(options)
    provider = str(span.attributes.get(names.PROVIDER, ""))
    own = f"{_VENDORS.get(provider, provider)}:{span.attributes.get(names.REQUEST_MODEL, '')}"
    name = options.model if options.model and "model" in options.given else own
    folder = working_folder()
    settings = await trio.to_thread.run_sync(read_run_settings, folder, os.environ)
    model, notes = open_model_of_run(name, session, os.environ, settings)
    tell(*notes)
    output, outcomes = OutputWriter(), Counter[str]()
    request = read_request(span)
    try:
        for _ in range(options.times):
            reply = await model.generate(request)
            said = visible("\n".join(_write_message(reply)[1:]))
            outcomes[said] += 1
            await output.text(serde.encode(reply).decode() if options.json else said)
    finally:
        with trio.move_on_after(1, shield=True):
            await model.aclose()
    if options.times > 1:
        counts = ", ".join(str(count) for _, count in outcomes.most_common())
        tell(f"{len(outcomes)} different replies to {options.times} requests: {counts}")
    return 0


async def _find(options: PromptOptions) -> tuple[AgentSession, Span]:
    store = open_store(options)
    session = await load_session(options.ids[0], store, keep_open=True)
    trace = await read_trace(session.session_id, store=store, folder=traces_folder(), tree=False)
    spans = list_requests(trace.spans, session.session_id)
    if trace.missing:
        tell(f"{trace.missing} lines of the trace were dropped: the first requests may be missing")
    if not 0 < options.number <= len(spans):
        raise ConfigurationError(
            f"there is no request {options.number} on record",
            hint=f"the trace has {len(spans)}, counted from 1" if spans else "",
        )
    span = spans[options.number - 1]
    if names.INPUT_MESSAGES not in span.attributes:
        raise ConfigurationError(
            f"the trace of {session.session_id} does not say what its model was asked",
            hint="record it without --trace none",
        )
    return session, span


def _write_request(span: Span, request: ModelRequest) -> list[str]:
    """Write a request as it was sent: settings, system, tools and messages."""
    shown = [names.REQUEST_MODEL, *(each for each in span.attributes if _is_setting(each))]
    lines = [f"{name}: {span.attributes[name]}" for name in dict.fromkeys(shown)]
    if request.system:
        lines += ["", "── system", str(request.system)]
    if request.tools:
        lines += ["", "── tools"]
    for tool in request.tools:
        lines.append(f"{tool.name}: {tool.description}\n  {_json(tool.parameters)}")
    for message in request.messages:
        lines += ["", *_write_message(message)]
    return lines


def _is_setting(name: str) -> bool:
    return name.startswith(("gen_ai.request.", "greenroom.request."))


def _write_message(message: Message) -> list[str]:
    role = "results" if message.tool_results else message.role
    lines = [f"── {role}"]
    if message.text:
        lines.append(message.text)
    calls = (f"[{each.id}] {each.name} {_json(each.input)}" for each in message.tool_uses)
    results = (f"[{each.tool_use_id}] {each.text}" for each in message.tool_results)
    return [*lines, *calls, *results]


def _json(value: object) -> str:
    return serde.dumps(value).decode()
