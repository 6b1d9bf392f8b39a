"""The forms of what an editor sends, as far as it is read; further fields are left alone."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from greenroom.core._internal import clip, serde
from greenroom.interop.acp.json_rpc import INVALID_PARAMS, RPCError

T = TypeVar("T", bound=msgspec.Struct)


class Form(msgspec.Struct, frozen=True, rename="camel"):
    """An object of the protocol, whose names are in camel case."""


class FileAbilities(Form, frozen=True):
    """Which files an editor reads and writes for an agent."""

    read_text_file: bool = False
    write_text_file: bool = False


class Elicitation(Form, frozen=True):
    """Which questions in words an editor asks; those whose field is there."""

    form: Mapping[str, object] | None = None


class Abilities(Form, frozen=True):
    """What an editor can do."""

    fs: FileAbilities = FileAbilities()
    elicitation: Elicitation | None = None


class Initialize(Form, frozen=True):
    """The first request: which version the editor speaks, and what it can do."""

    protocol_version: int
    client_capabilities: Abilities = Abilities()


class Pair(Form, frozen=True):
    """A variable of the environment, or a header."""

    name: str
    value: str


class ServerEntry(Form, frozen=True):
    """A server of tools: a program, or an address where `type` says so."""

    name: str
    type: str = "stdio"
    command: str = ""
    args: tuple[str, ...] = ()
    env: tuple[Pair, ...] = ()
    url: str = ""
    headers: tuple[Pair, ...] = ()


class OpenSession(Form, frozen=True):
    """A request for a new session, or for one that exists."""

    cwd: str
    session_id: str = ""
    mcp_servers: tuple[ServerEntry, ...] = ()


class SessionName(Form, frozen=True):
    """A request about a session."""

    session_id: str


class Resource(Form, frozen=True):
    """What a block holds of a file: its text, or its bytes in base64."""

    uri: str
    text: str | None = None
    blob: str | None = None
    mime_type: str | None = None


class Block(Form, frozen=True):
    """A block of an input, of any kind."""

    type: str
    text: str = ""
    data: str = ""
    mime_type: str | None = None
    uri: str | None = None
    name: str = ""
    resource: Resource | None = None


class Prompt(Form, frozen=True):
    """An input."""

    session_id: str
    prompt: tuple[Block, ...]


class SetMode(Form, frozen=True):
    """A request for another mode."""

    session_id: str
    mode_id: str


class SetOption(Form, frozen=True):
    """A request for another value of an option."""

    session_id: str
    config_id: str
    value: str


class ListSessions(Form, frozen=True):
    """A request for a page of the list of sessions."""

    cwd: str | None = None
    cursor: str | None = None


class Outcome(Form, frozen=True):
    """What a person has chosen."""

    outcome: str
    option_id: str = ""


class Permission(Form, frozen=True):
    """The answer to a question about a call."""

    outcome: Outcome


class Filled(Form, frozen=True):
    """The answer to a question in words."""

    action: str
    content: Mapping[str, object] | None = None


class Content(Form, frozen=True):
    """The text of a file."""

    content: str


def read(params: object, kind: type[T]) -> T:
    """Read the parameters of a request; what is null counts as left out.

    Raises:
        RPCError: they don't fit; it says where.
    """
    try:
        return serde.convert({} if params is None else _without_nulls(params), kind)
    except msgspec.ValidationError as error:
        raise RPCError(INVALID_PARAMS, clip(str(error), 500)) from error
    except RecursionError as error:
        raise RPCError(INVALID_PARAMS, "there are too many levels in it") from error


def _without_nulls(value: object) -> object:
    match value:
        case dict():
            return {key: _without_nulls(each) for key, each in value.items() if each is not None}
        case list():
            return [_without_nulls(each) for each in value]
        case _:
            return value
