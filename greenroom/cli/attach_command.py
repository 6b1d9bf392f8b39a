"""`greenroom attach`: the terminal on an agent of a server, by `remote`.

The conversation, the model, the tools and the rules are those of the server. The terminal shows
what the agent says, asks its questions with the machine and the folder that they are about, and
interrupts its turns. A connection that breaks is a line, and is opened again; a server that is lost
for a minute ends the command.
"""

import os
import shlex
from contextlib import nullcontext
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import quote, urlsplit

import msgspec
import trio
from rich.text import Text

from greenroom._version import __version__
from greenroom.cli.background import has_light_background
from greenroom.cli.command_options import AttachOptions
from greenroom.cli.formatting import recap
from greenroom.cli.input_history import read_line_options
from greenroom.cli.line_styles import LINE_STYLES
from greenroom.cli.options import DONE, FAILED
from greenroom.cli.painter import ColorScheme
from greenroom.cli.render_chunk import render_recap
from greenroom.cli.renderables import RenderableType
from greenroom.cli.renderer import ConsoleRenderer
from greenroom.cli.settings import Settings
from greenroom.cli.settings_layers import read_run_settings
from greenroom.cli.stdio import EndSignals, OutputWriter, tell
from greenroom.cli.stored_sessions import working_folder
from greenroom.cli.terminal import Terminal, open_plain_terminal
from greenroom.cli.terminal_choice import terminal_opener
from greenroom.cli.themes import THEMES, name_look
from greenroom.core import ConfigurationError, Error, Message
from greenroom.core._internal import visible
from greenroom.interop import RemoteError, RemoteLostError
from greenroom.interop._internal import RemoteServer, find_remote_session, join_remote
from greenroom.runtime import AgentHandle, AgentRuntime
from greenroom.session import AgentSession, InMemoryStore

VARIABLE = "GREENROOM_TOKEN"
"""The variable that holds the token, where no file and no link does."""

_FIRST_TRY = 3.0  # seconds for a server to be reached at the start
_RECAP = 6  # messages of a session that are shown
_LONGEST_TOKEN = 1_000
_LISTED = 5  # sessions that an error names


@dataclass(frozen=True)
class Attachment:
    """An agent of a server, and what was said before.

    Attributes:
        address: the server's address, without a token.
        host: its host and port.
        token: the token, or None.
        agent: the agent's name.
        session: the id of the session there, or None for a new one.
        messages: the conversation so far.
        warning: what the person must know before it begins, if anything.
    """

    address: str
    host: str
    token: str | None = field(repr=False)
    agent: str
    session: str | None = None
    messages: tuple[Message, ...] = ()
    warning: str = ""


async def attach(options: AttachOptions) -> int:
    """Talk with an agent of a server until the person leaves; return the exit code.

    Raises:
        ConfigurationError: the address, the token or the settings can't be used.
        RemoteError: it is not a Greenroom server, or refuses the token, the session or the agent.
    """
    try:
        attachment = await find_attachment(options)
    except RemoteLostError as error:
        tell(str(error))
        return FAILED
    settings = await trio.to_thread.run_sync(read_run_settings, working_folder(), os.environ)
    signals, code, opener, is_light = EndSignals(), DONE, terminal_opener(), False
    if opener is not open_plain_terminal:
        is_light = await trio.to_thread.run_sync(has_light_background)
    last_words = ""
    async with opener() as terminal, trio.open_nursery() as nursery:
        await nursery.start(signals.watch, nursery.cancel_scope)
        terminal.adopt(await read_line_options(settings, working_folder()))
        code, last_words = await show_attachment(attachment, terminal, settings, is_light=is_light)
        nursery.cancel_scope.cancel()
    if code != DONE:
        tell(last_words)
    elif last_words:
        await OutputWriter().text(last_words)
    return code if signals.exit_code is None else signals.exit_code


async def find_attachment(options: AttachOptions) -> Attachment:
    """Find the server, the agent and the session that are meant.

    Raises:
        ConfigurationError: the address or the token can't be used.
        RemoteError: it is not a Greenroom server, or refuses the token, the session or the agent.
        RemoteLostError: it can't be reached.
    """
    address, _, fragment = options.url.partition("#")
    token = await trio.to_thread.run_sync(_read_token, options, fragment)
    server = RemoteServer(address, token)
    try:
        await server.check(_FIRST_TRY)
        agents = [each.name for each in await server.list_agents()]
        agent, messages = options.agent or agents[0], tuple[Message, ...]()
        if options.session is not None:
            agent, messages = await _read_session(server, options.session)
        elif agent not in agents:
            raise ConfigurationError(
                f"{server.host} serves no agent {visible(agent)!r}",
                hint=f"it serves {visible(', '.join(agents[:20]))}",
            )
    except RemoteError as error:
        raise _explain(error, server.host, has_token=token is not None) from error
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
            await server.aclose()
    warning = _warn_of_plain_http(server.address) if token else ""
    found = server.address, server.host, token, agent
    return Attachment(*found, options.session, messages, warning)


class _Shown(msgspec.Struct):
    agent: str
    messages: tuple[Message, ...] = ()


class _Listed(msgspec.Struct):
    id: str
    title: str = ""


class _Sessions(msgspec.Struct):
    sessions: tuple[_Listed, ...] = ()


async def _read_session(server: RemoteServer, id_: str) -> tuple[str, tuple[Message, ...]]:
    """Return the agent of a session, and what was said in it."""
    try:
        shown = await server.ask("GET", f"/api/sessions/{quote(id_, safe='')}", _Shown)
    except RemoteError as error:
        if error.status != 404:
            raise
        listed = await server.ask("GET", f"/api/sessions?limit={_LISTED}", _Sessions)
        rows = [f"{each.id} {each.title}".strip() for each in listed.sessions]
        raise ConfigurationError(
            f"{server.host} has no session {visible(id_)!r} of yours",
            hint=visible("the newest are: " + "; ".join(rows)) if rows else "there are none",
        ) from error
    return shown.agent, shown.messages


def _explain(error: RemoteError, host: str, *, has_token: bool) -> RemoteError:
    """Return an error that says what is wrong with the token, if it is that."""
    if error.status == 401:
        what = "refuses the token" if has_token else "wants a token"
        hint = f"pass the file with yours as --token-file, or set {VARIABLE}"
        return RemoteError(f"{host} {what}", status=401, hint=hint)
    if error.status == 403:
        hint = "greenroom serve token NAME operator adds one, where the server runs"
        return RemoteError(f"{host}: this token may not do that", status=403, hint=hint)
    return error


def _read_token(options: AttachOptions, fragment: str) -> str | None:
    """Return the token: that in the file, in the link or in the variable. It blocks.

    Raises:
        ConfigurationError: it can't be read, or is not one line of text.
    """
    key, _, token = fragment.partition("=")
    if options.token_file is not None:
        try:
            token = Path(options.token_file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"the token in {options.token_file} can't be read", hint=str(error)
            ) from error
    elif key != "token":
        token = os.environ.get(VARIABLE, "").strip()
    if not token:
        return None
    if len(token) > _LONGEST_TOKEN or not token.isascii() or not token.isprintable():
        raise ConfigurationError(
            "that is not a token",
            hint="it is one line, as greenroom serve token has printed it",
        )
    return token


def _warn_of_plain_http(address: str) -> str:
    """Say if the token goes over a network as it is."""
    parts = urlsplit(address)
    name = parts.hostname or ""
    try:
        is_here = ip_address(name).is_loopback
    except ValueError:
        is_here = name == "localhost"
    if parts.scheme == "https" or is_here:
        return ""
    return f"the token goes to {parts.netloc} unencrypted: use https"


async def show_attachment(
    attachment: Attachment, terminal: Terminal, settings: Settings, *, is_light: bool = False
) -> tuple[int, str]:
    """Show the agent in the terminal until the person leaves, or the server is lost.

    Returns:
        The exit code, and what to print once the terminal is restored.
    """
    look = name_look(settings.theme, is_light=is_light)
    colors = THEMES[look]
    terminal.restyle(LINE_STYLES[look])
    place = attachment.address
    agent, session, token = attachment.agent, attachment.session, attachment.token
    function = join_remote(place, agent=agent, session=session, token=token)
    own, lost = AgentSession.new(agent, store=InMemoryStore()), list[str]()
    async with AgentRuntime(InMemoryStore()) as runtime:
        handle = runtime.spawn(own, function, name=agent)
        renderer = ConsoleRenderer(
            handle,
            colors=colors,
            notify=settings.notify,
            opening=_render_opening(attachment, colors),
            terminal=lambda: nullcontext(terminal),
        )
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_watch_loss, handle, lost, nursery.cancel_scope)
            await renderer.run()
            nursery.cancel_scope.cancel()
        if not lost:
            await handle.interrupt()
    if lost:
        return FAILED, lost[0]
    far = find_remote_session(own) or session
    return DONE, f"{way_back(place, far)}   continues this session" if far else ""


async def _watch_loss(handle: AgentHandle, lost: list[str], scope: trio.CancelScope) -> None:
    """End what is shown once the server is lost for good."""
    async with handle.subscribe("all") as chunks:
        async for chunk in chunks:
            if isinstance(chunk, Error) and chunk.kind == RemoteLostError.__name__:
                lost.append(visible(chunk.message))
                scope.cancel()


def way_back(address: str, session: str) -> str:
    """Return the command that goes on with a session."""
    # The id is the server's word, and may hold anything.
    return visible(shlex.join(["greenroom", "attach", address, "--session", session]))


def _render_opening(attachment: Attachment, colors: ColorScheme) -> list[RenderableType]:
    """Render the opening: where it works, and the conversation so far."""
    head = f"greenroom {__version__} · {attachment.agent} · {attachment.host}"
    lines: list[RenderableType] = [Text(visible(head), colors.tool)]
    lines += [Text(visible(attachment.warning), colors.error)] if attachment.warning else []
    earlier = recap(attachment.messages, _RECAP)
    if earlier:
        lines.append(Text(visible(f"session {attachment.session}, so far:"), colors.note))
    for line in earlier:
        lines += [render_recap(line, colors), Text("")]
    return [*lines, Text("")]
