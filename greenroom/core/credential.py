"""Credentials: values that a person gives once, for tools to use and for nobody to read."""

import re
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeVar, cast

from msgspec.structs import replace

from greenroom.core import serde
from greenroom.core.context import AgentContext, ResourceMap
from greenroom.core.errors import ToolError
from greenroom.core.serde import Wire

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9 _.-]{0,62}[A-Za-z0-9])?")
_FORGOTTEN = 100
_SHORTEST = 4  # characters of a value that is concealed where it turns up
_BINARY = "data"  # of images and documents, in base64

T = TypeVar("T")


class Credentials:
    """The values that were given, a resource; nothing that shows or stores it shows a value.

    Each tree of agents has its own, and those that a program puts among the runtime's resources hold for all
    trees.
    """

    def __init__(self) -> None:
        """Start with none."""
        self._values: dict[str, str] = {}
        # Concealed like the others: the call that has let go of one may still tell of it.
        self._forgotten = deque[tuple[str, str]](maxlen=_FORGOTTEN)

    def give(self, name: str, value: str) -> None:
        """Keep a value, and forget one that was there.

        Raises:
            ValueError: there is nothing in it.
        """
        if not value.strip():
            raise ValueError(f"the value of the credential {name!r} is empty")
        self.forget(name)
        self._values[name] = value

    def find(self, name: str) -> str | None:
        """Return the value of this name, or None."""
        return self._values.get(name)

    def forget(self, name: str) -> None:
        """Let go of a value, such as one that was refused."""
        if name in self._values:
            self._forgotten.append((name, self._values.pop(name)))

    def conceal(self, text: str) -> str:
        """Put the names of the values in their places, also where a value stands in quotes."""
        for name, value in (*self._values.items(), *self._forgotten):
            if len(value) >= _SHORTEST:
                for written in (value, serde.encode(value)[1:-1].decode(), repr(value)[1:-1]):
                    text = text.replace(written, f"[{name}]")
        return text

    def __bool__(self) -> bool:
        return bool(self._values or self._forgotten)

    def __repr__(self) -> str:
        return f"<credentials: {', '.join(self._values) or 'none'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("credentials are not copied out of the process")


@dataclass(frozen=True)
class Credential:
    """A value that the person gives once, such as a token: named here, held among the resources.

    A tool that is made with `@tool(credentials=[…])` is run once the person has given them; where one is
    missing, a `PermissionRequest` with its name in `credential` asks. The value is handed in by
    `handle.give_credential`, never in an answer, so it is in no input, message, chunk, record or file.

    Attributes:
        name: what it is called: 1 to 64 letters, digits, blanks, `_`, `.` and `-`.
        hint: what the person is told about it, such as where to get it.

    Example:
        ```python
        GITHUB = Credential("github token", hint="Settings > Developer settings; read-only will do")


        @tool(credentials=[GITHUB])
        async def issues(repo: str, context: AgentContext) -> str:
            return await fetch(repo, headers={"Authorization": f"Bearer {GITHUB.value(context)}"})
        ```
    """

    name: str
    hint: str = ""

    def __post_init__(self) -> None:
        """Refuse a name that can't be shown or written as it is."""
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} is not a name for a credential")

    def find(self, context: AgentContext) -> str | None:
        """Return the value, or None where nobody has given it."""
        for credentials in _credentials_in(context.resources):
            value = credentials.find(self.name)
            if value is not None:
                return value
        return None

    def value(self, context: AgentContext) -> str:
        """Return the value.

        Raises:
            ToolError: nobody has given it.
        """
        value = self.find(context)
        if value is None:
            raise ToolError(f"the credential {self.name!r} is missing", hint=self.hint)
        return value

    def forget(self, context: AgentContext) -> None:
        """Let go of the value, such as one that a service has refused; the next call asks for another."""
        for credentials in _credentials_in(context.resources):
            credentials.forget(self.name)

    def give(self, resources: ResourceMap, value: str) -> None:
        """Give it among these resources, such as `runtime.resources`: there it holds for all agents.

        Raises:
            ValueError: there is nothing in it.
        """
        credentials = resources.get(Credentials) or Credentials()
        credentials.give(self.name, value)
        resources.insert(credentials)


def conceal(value: T, context: AgentContext) -> T:
    """Return a text, or a value of texts such as a result, in which names stand for the credentials."""
    found = [each for each in _credentials_in(context.resources) if each]
    return cast("T", _conceal(value, found)) if found else value


def _conceal(value: object, found: Sequence[Credentials]) -> object:
    if type(value) is str:  # and no word of an enumeration
        for credentials in found:
            value = credentials.conceal(value)
        return value
    if isinstance(value, dict):
        return {_conceal(key, found): _conceal(item, found) for key, item in value.items()}
    if isinstance(value, list | tuple):
        items = [_conceal(item, found) for item in value]
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, Wire):
        fields = {name: getattr(value, name) for name in value.__struct_fields__ if name != _BINARY}
        return replace(value, **{name: _conceal(each, found) for name, each in fields.items()})
    return value


def _credentials_in(resources: ResourceMap) -> tuple[Credentials, ...]:
    """Return the credentials of the tree of agents, and those of the runtime."""
    own, shared = resources.get(Credentials), resources.shared.get(Credentials)
    return tuple(dict.fromkeys(each for each in (own, shared) if each is not None))
