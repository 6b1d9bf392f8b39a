"""Who may come in: names, their roles, and the hashes of their tokens."""

import getpass
import hashlib
import hmac
import logging
import os
import re
import secrets
import stat
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from greenroom.core import ConfigurationError
from greenroom.core._internal import AUTOMATIC_DECIDERS, RUNTIME, ConfigurationFileError

logger = logging.getLogger("greenroom.serving")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_HASH = re.compile(r"[0-9a-f]{64}")
_LONGEST = 1 << 20  # bytes of a file of tokens
_MACHINES = AUTOMATIC_DECIDERS | {RUNTIME, "user"}


class Role(StrEnum):
    """What a token is good for.

    A viewer reads what belongs to its name; an operator speaks and answers as well; an admin does
    so in everybody's sessions, and removes them. An auditor sees the audit and the metrics alone.
    """

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"
    AUDITOR = "auditor"

    def allows(self, needed: "Role") -> bool:
        """Whether it is enough where this role is needed.

        Example:
            >>> Role.ADMIN.allows(Role.VIEWER), Role.AUDITOR.allows(Role.VIEWER)
            (True, False)
        """
        if Role.AUDITOR in (self, needed):
            return needed is Role.AUDITOR and self in (Role.AUDITOR, Role.ADMIN)
        order = [Role.VIEWER, Role.OPERATOR, Role.ADMIN]
        return order.index(self) >= order.index(needed)


@dataclass(frozen=True)
class Caller:
    """Whoever sent a request: the line of its token.

    Attributes:
        name: the name on the line, to which its sessions belong.
        role: what it may do.
        digest: the hash of the token, in lower-case hex.
    """

    name: str
    role: Role
    digest: str


class Tokens:
    """The tokens that a server accepts; it knows only their hashes.

    They are lines of a file, NAME ROLE SHA256: a name of letters, digits and `._@-`, a `Role`, and
    the hash of the token's UTF-8 in lower-case hex. Empty lines and lines with `#` count for
    nothing. Nobody but its owner may read or write the file. While a server runs, it reads the file
    again when it has changed: a line that is gone closes the streams of its token within a second,
    and a bad file changes nothing, and is said in the log.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "tokens")
        >>> line = "ann operator " + hashlib.sha256(b"a long secret").hexdigest()
        >>> with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w") as file:
        ...     _ = file.write(line)
        >>> tokens = Tokens.load(path)
        >>> found = tokens.find("a long secret")
        >>> (found.name, str(found.role)), tokens.find("another")
        (('ann', 'operator'), None)
    """

    def __init__(self, callers: tuple[Caller, ...] = (), path: str = "") -> None:
        """Accept these; `load` reads a file."""
        self._callers = callers
        self._path = path
        self._seen: tuple[int, int, int] | None = None

    @classmethod
    def load(cls, path: str | Path) -> "Tokens":
        """Read a file of tokens.

        Raises:
            ConfigurationFileError: a line can't be read, a name is one that the record keeps for
                machines, or there is no line at all.
            ConfigurationError: the file can't be read, or others than its owner may use it.
        """
        tokens = cls(path=os.fspath(path))
        tokens._seen, tokens._callers = _read(tokens._path)
        return tokens

    @classmethod
    def make(cls, name: str, role: Role = Role.OPERATOR) -> "tuple[Tokens, str]":
        """Make one token, which is kept nowhere, and what accepts it."""
        token = secrets.token_urlsafe(32)
        return cls((Caller(name, role, _hash(token)),)), token

    def __repr__(self) -> str:
        return f"<Tokens of {', '.join(sorted({each.name for each in self._callers}))}>"

    def find(self, token: str) -> Caller | None:
        """Return whose token this is, or None; each takes the same time."""
        digest, found = _hash(token), None
        for each in self._callers:
            if hmac.compare_digest(each.digest, digest):
                found = each
        return found

    @property
    def may_change(self) -> bool:
        """Whether they are those of a file."""
        return bool(self._path)

    def knows(self, caller: Caller) -> bool:
        """Whether the line of a token is still there."""
        return caller in self._callers

    def refresh(self) -> None:
        """Read the file again if it has changed; a bad one changes nothing, and is logged."""
        if not self._path:
            return
        try:
            if _stamp(os.stat(self._path)) == self._seen:
                return
            self._seen, self._callers = _read(self._path)
        except OSError as error:
            self._complain(str(error.strerror))
        except ConfigurationError as error:
            self._complain(str(error))

    def _complain(self, problem: str) -> None:
        """Say once of each state of the file that it does not count."""
        try:
            seen = _stamp(os.stat(self._path))
        except OSError:
            seen = (0, 0, 0)
        if seen != self._seen:
            self._seen = seen
            logger.error("the tokens of before count, since the file changed: %s", problem)


def add_token(path: str | Path, name: str, role: Role) -> str:
    """Add a line for a new token to a file, which is made if there is none; return the token.

    Raises:
        ConfigurationError: the name can't be used, or the file.
    """
    check_name(name)
    path = Path(path)
    if path.exists():
        _read(os.fspath(path), may_be_empty=True)
    token = secrets.token_urlsafe(32)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "ab") as file:
            size = os.fstat(descriptor).st_size
            has_end = not size or os.pread(descriptor, 1, size - 1) == b"\n"
            line = f"{name} {role} {_hash(token)}\n"
            file.write((line if has_end else f"\n{line}").encode())
            file.flush()
            os.fsync(descriptor)
    except OSError as error:
        raise ConfigurationError(f"{path} can't be written: {error.strerror}") from error
    return token


def login_name() -> str:
    """Return the name of whoever runs this process, for a token that is made for them."""
    try:
        return check_name(getpass.getuser())
    except (ConfigurationError, OSError, KeyError, ImportError):
        return "operator"


def check_name(name: str) -> str:
    """Return a name that tokens may have.

    Raises:
        ConfigurationError: it is another.
    """
    if not _NAME.fullmatch(name):
        raise ConfigurationError(
            f"{name[:80]!r} can't be the name of a token",
            hint="use up to 64 letters, digits, '.', '_', '@' and '-'",
        )
    if name in _MACHINES:
        raise ConfigurationError(
            f"{name!r} stands in the record for no person", hint="take another name"
        )
    return name


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def _stamp(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_ino


def _read(
    path: str, *, may_be_empty: bool = False
) -> tuple[tuple[int, int, int], tuple[Caller, ...]]:
    """Read a file; return what tells it from another state of it, and its lines.

    Raises:
        ConfigurationError: it can't be used.
    """
    try:
        with open(path, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ConfigurationError(f"{path} is not a file")
            if stat.S_IMODE(status.st_mode) & ~0o600:
                raise ConfigurationError(
                    f"others than its owner may use {path}", hint=f"chmod 600 {path}"
                )
            data = file.read(_LONGEST + 1)
    except OSError as error:
        raise ConfigurationError(
            f"the tokens in {path} can't be read: {error.strerror}",
            hint="`greenroom serve token NAME ROLE` makes the file",
        ) from error
    if len(data) > _LONGEST:
        raise ConfigurationError(f"{path} has more than {_LONGEST:,} bytes")
    lines = enumerate(data.decode("utf-8", "replace").splitlines(), 1)
    callers = tuple(
        _read_line(line, number, path)
        for number, line in lines
        if line.strip() and not line.lstrip().startswith("#")
    )
    if not callers and not may_be_empty:
        raise ConfigurationFileError(
            "there is no token", path=path, hint="`greenroom serve token NAME ROLE` adds one"
        )
    return _stamp(status), callers


def _read_line(line: str, number: int, path: str) -> Caller:
    """Read a line; what it says is not quoted, since a token may stand there by mistake."""
    words = line.split()
    if len(words) != 3 or words[1] not in {*Role} or not _HASH.fullmatch(words[2]):
        raise ConfigurationFileError(
            "a line is NAME ROLE SHA256, the hash in lower-case hex",
            path=path,
            line=number,
            hint=f"a role is one of {', '.join(Role)}",
        )
    try:
        return Caller(check_name(words[0]), Role(words[1]), words[2])
    except ConfigurationError as error:
        raise ConfigurationFileError(
            error.message, path=path, line=number, hint=error.hint
        ) from error
