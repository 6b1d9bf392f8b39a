"""Cassettes: HTTP exchanges, recorded once into a file without secrets, then replayed.

A recording has the method, address and body of each request, and the status, a few headers and the
body of each answer, in the pieces in which it came. Request headers are never recorded, since they
hold keys.
"""

import difflib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, get_args
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
import trio

from greenroom import core
from greenroom.core._internal import InvalidJSONError, serde
from greenroom.fs._internal import durable
from greenroom.llm._internal import (
    FORBID_VARIABLE,
    forbids_calls,
    read_anthropic_request,
    read_chat_request,
    read_gemini_request,
    read_responses_request,
)
from greenroom.net import HttpClient
from greenroom.net._internal import Body, ChunkIterator, HttpResponse, HttpTransport, Timeouts
from greenroom.testing.concealment import Concealment, secrets_in, secrets_of_answer

MAX_SIZE = 64 * 1024 * 1024
"""The most bytes that a cassette may take."""


class CassetteError(core.ConfigurationError):
    """A cassette is unusable, or has no answer to a request; the message shows the difference."""

    remedy = "record the cassette anew"


class Binary(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes that are not text."""

    base64: bytes


_NO_JSON = msgspec.Raw()


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A request as it is recorded: its body as JSON where it is JSON, else as it is."""

    method: str
    url: str
    json: msgspec.Raw = _NO_JSON
    content: str | Binary | None = None


class Response(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An answer as it is recorded; it is incomplete if its reader stopped early."""

    status: int
    headers: dict[str, str]
    chunks: list[str | Binary]
    complete: bool = True

    @property
    def pieces(self) -> list[bytes]:
        """The body, byte by byte, cut as it came."""
        return [each.base64 if isinstance(each, Binary) else each.encode() for each in self.chunks]


class Exchange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request and its answer."""

    request: Request
    response: Response


class Recording(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of a file."""

    format: Literal["greenroom cassette"]
    version: Literal[1]
    exchanges: list[Exchange]


def text_or_binary(data: bytes) -> str | Binary:
    """Return bytes as text if they are text, so that people can read them."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return Binary(data)


def read(path: Path) -> list[Exchange]:
    """Read a cassette.

    Raises:
        CassetteError: it can't be read, is too large, or is not a cassette of this version.
    """
    try:
        if path.stat().st_size > MAX_SIZE:
            raise CassetteError(f"{path}: larger than {MAX_SIZE >> 20} MiB", hint=_AGAIN)
        return serde.decode(path.read_bytes(), Recording).exchanges
    except (OSError, InvalidJSONError) as error:
        raise CassetteError(f"{path} can't be read: {error}", hint=_AGAIN) from error


def write(path: Path, exchanges: list[Exchange]) -> None:
    """Write a cassette that only its owner can read: to a file beside it, then renamed over it.

    Raises:
        CassetteError: it is too large, or the disk refuses; the old file stays.
    """
    recording = Recording("greenroom cassette", 1, exchanges)
    data = serde.dumps(serde.loads(serde.encode(recording)), pretty=True) + b"\n"
    if len(data) > MAX_SIZE:
        raise CassetteError(f"{path} would be larger than {MAX_SIZE >> 20} MiB", hint="record less")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        durable.write_file(str(path), data)
    except OSError as error:
        raise CassetteError(f"{path} can't be written: {error}") from error


_AGAIN = "record it again, with mode='record'"

CassetteMode: TypeAlias = Literal["auto", "replay", "record"]
"""What a cassette does; "auto" replays a file that exists, and records one that does not."""

_RECORDED_HEADERS = frozenset(
    {"content-type", "request-id", "retry-after", "retry-after-ms", "x-request-id"}
)
_RECORDED_PREFIXES = ("anthropic-ratelimit-", "x-ratelimit-")
_DIFF_LINES = 40
_TIMEOUTS = Timeouts()


@asynccontextmanager
async def cassette(
    path: str | Path,
    *,
    mode: CassetteMode = "auto",
    client: HttpTransport | None = None,
    secrets: Iterable[str] = (),
    ignore: Collection[str] = ("prompt_cache_key",),
) -> "AsyncIterator[CassetteClient]":
    """Open a cassette; inside the block it is the client that a provider is given.

    Where it replays, nothing is sent and any key will do. Where it records, the file is written
    when the block ends without an error, as a whole, readable by its owner alone. While calls of
    real models are forbidden nothing is recorded.

    Keys, cookies and organisation ids never reach the file: request headers are not recorded, and
    where the other side echoes their values, "[secret]" takes their place, in whatever piece,
    escaped or in base64. Values of fewer than eight characters are taken for words, and stay. A
    secret that is spread over several events of a stream can't be taken out, so nothing is written
    then.

    Args:
        path: the file, JSON.
        mode: "auto", "replay" or "record"; the last one replaces a file that exists.
        client: what to record with; by default a new client.
        secrets: texts that must not reach the file, besides what headers and the environment hold.
        ignore: members of the request's body that may differ from the recording.

    Raises:
        ConfigurationError: there is no such mode.
        TypeError: `secrets` or `ignore` is a text, and not several.
        CassetteError: the file can't be read or written, holds too much, or would hold a secret;
            or, from the provider, a request that was not recorded: it shows the difference.

    Example:
        ```python
        async with cassette("tests/weather.json") as client:
            llm = AnthropicProvider("claude-sonnet-5-5", api_key=key, client=client)
            reply = await llm.generate(request)
        ```
    """
    for name, texts in (("secrets", secrets), ("ignore", ignore)):
        if isinstance(texts, str):  # each letter of it would count for itself
            raise TypeError(f"{name} are several: write {name}=[…]")
    path = Path(path)
    if mode not in get_args(CassetteMode):
        modes = ", ".join(get_args(CassetteMode))
        raise core.ConfigurationError(
            f"{mode!r} is not a mode of a cassette", hint=f"one of {modes}"
        )
    if mode == "replay" or (mode == "auto" and path.exists()):
        # Not in a thread: a clock that jumps would jump while the thread works.
        yield _Replay(path, read(path), Concealment(secrets), ignore)
        return
    if forbids_calls():
        raise CassetteError(
            f"{path} would have to be recorded, and {FORBID_VARIABLE} forbids that",
            hint="record it once without that, and keep it with the tests",
        )
    async with AsyncExitStack() as stack:
        if client is None:
            client = await stack.enter_async_context(HttpClient())
        recorder = _Recorder(path, client, Concealment(secrets))
        yield recorder
    await trio.to_thread.run_sync(lambda: write(path, recorder.exchanges()))


class CassetteClient(ABC):
    """The client of a cassette, to be given to a provider.

    Attributes:
        is_replay: whether it replays, so that nothing is ever sent.
    """

    is_replay = False

    def __init__(self, path: Path, concealment: Concealment) -> None:
        """Answer from this file, or into it."""
        self._path = path
        self._concealment = concealment
        self._exchanges: list[Exchange] = []  # those to replay

    @property
    def unplayed_count(self) -> int:
        """How many recorded exchanges have not been replayed."""
        return len(self._exchanges)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        timeout: Timeouts = _TIMEOUTS,
    ) -> AsyncIterator[HttpResponse]:
        """Answer a request, from the file or by sending it.

        Raises:
            CassetteError: it was not recorded, or there is too much to record.
            NetworkError: while recording, the other side can't be reached.
        """
        self._concealment.add(secrets_in(url, headers or {}))
        sent = _Sent(method, url, headers, content, timeout)
        async with self._answer(sent) as (status, answer_headers, body):
            chunks = ChunkIterator(body, urlsplit(url).hostname or "", "", timeout.read)
            yield HttpResponse(status, answer_headers, url, chunks)

    @abstractmethod
    def _answer(self, sent: "_Sent") -> AbstractAsyncContextManager["_Answer"]:
        """Open the answer to a request."""

    async def aclose(self) -> None:
        """Do nothing: `cassette` closes what it has opened."""
        await trio.lowlevel.checkpoint()


@dataclass(frozen=True)
class _Sent:
    """A request as a provider sends it."""

    method: str
    url: str
    headers: Mapping[str, str] | None
    content: bytes | None
    timeout: Timeouts


_Answer: TypeAlias = tuple[int, Mapping[str, str], Body]
"""The status, the headers and the body."""


class _Replay(CassetteClient):
    """Answers from a file: equal requests in the order in which they were recorded."""

    is_replay = True

    def __init__(
        self,
        path: Path,
        exchanges: list[Exchange],
        concealment: Concealment,
        ignore: Collection[str],
    ) -> None:
        super().__init__(path, concealment)
        self._exchanges = exchanges
        self._ignore = ignore

    @asynccontextmanager
    async def _answer(self, sent: _Sent) -> AsyncIterator[_Answer]:
        await trio.lowlevel.checkpoint()
        response = self._pop(_describe(sent, self._concealment)).response
        yield response.status, response.headers, _ReplayedPieces(response)

    def _pop(self, request: Request) -> Exchange:
        """Return the first recorded exchange of an equal request, which is not replayed again."""
        wanted = self._lines(request)
        for index, each in enumerate(self._exchanges):
            if self._lines(each.request) == wanted:
                return self._exchanges.pop(index)
        raise CassetteError(
            f"{self._path} holds no answer to this request" + self._difference(wanted),
            hint="if the request is right, record the cassette again with mode='record'",
        )

    def _lines(self, request: Request) -> list[str]:
        """Return the lines in which a request must equal its recording."""
        parts = urlsplit(request.url)
        place = f"{request.method} {parts.hostname}{parts.path}?{parts.query}".removesuffix("?")
        if request.content is not None:
            return [place, str(request.content)]
        body = serde.loads(bytes(request.json))
        if isinstance(body, dict):
            body = {name: value for name, value in body.items() if name not in self._ignore}
        return [place, *serde.dumps(body, pretty=True).decode().splitlines()]

    def _difference(self, wanted: list[str]) -> str:
        if not self._exchanges:
            return ": all that was recorded has been replayed"
        others = [self._lines(each.request) for each in self._exchanges]
        nearest = max(
            others, key=lambda each: difflib.SequenceMatcher(None, each, wanted).quick_ratio()
        )
        lines = list(difflib.unified_diff(nearest, wanted, "recorded", "asked", lineterm="", n=1))
        more = [f"… {len(lines) - _DIFF_LINES} more lines"] if len(lines) > _DIFF_LINES else []
        return ":\n" + "\n".join([*lines[:_DIFF_LINES], *more])


class _ReplayedPieces:
    """The pieces of a recorded body, cut as they were."""

    is_complete = False  # whoever reads on learns that

    def __init__(self, response: Response) -> None:
        self._pieces = iter(response.pieces)
        self._complete = response.complete

    async def read(self, _deadline: float) -> bytes:
        await trio.lowlevel.checkpoint()
        for piece in self._pieces:
            return piece
        if self._complete:
            return b""
        raise core.NetworkError(
            "the recording ends here: its reader stopped before the end", hint="record it again"
        )

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


@dataclass
class _ExchangeDraft:
    """An exchange that is being recorded, as it is, with its secrets."""

    sent: _Sent
    status: int
    headers: dict[str, str]
    pieces: list[bytes] = field(default_factory=list)
    complete: bool = False


class _Recorder(CassetteClient):
    """Sends what it is given, and records both sides."""

    def __init__(self, path: Path, client: HttpTransport, concealment: Concealment) -> None:
        super().__init__(path, concealment)
        self._client = client
        self._drafts: list[_ExchangeDraft] = []
        self._size = 0

    @asynccontextmanager
    async def _answer(self, sent: _Sent) -> AsyncIterator[_Answer]:
        request = self._client.stream(
            sent.method, sent.url, headers=sent.headers, content=sent.content, timeout=sent.timeout
        )
        async with request as response:
            self._concealment.add(secrets_of_answer(response.headers))
            lower = {name.lower(): value for name, value in response.headers.items()}
            draft = _ExchangeDraft(sent, response.status, lower)
            self._drafts.append(draft)
            self.count(len(sent.content or b""))
            yield response.status, response.headers, _Tape(response.chunks(), draft, self)

    def count(self, size: int) -> None:
        """Add to the size of the recording.

        Raises:
            CassetteError: it is too much for one file.
        """
        self._size += size
        if self._size > MAX_SIZE:
            raise CassetteError(
                f"{self._path} would be larger than {MAX_SIZE >> 20} MiB", hint="record less"
            )

    def exchanges(self) -> list[Exchange]:
        """Return what was recorded, without secrets.

        Raises:
            CassetteError: a secret can't be taken out.
        """
        return [self._conceal(each) for each in self._drafts]

    def _conceal(self, draft: _ExchangeDraft) -> Exchange:
        pieces = self._concealment.conceal(draft.pieces)
        if self._concealment.has_secret(b"".join(pieces)):
            raise CassetteError(
                f"{self._path} is not written: an answer holds a secret that can't be taken out, "
                "such as one that is spread over several events",
                hint="ask for something else, or revoke the key and record with another",
            )
        headers = {
            name: self._concealment.conceal_text(value)
            for name, value in draft.headers.items()
            if name in _RECORDED_HEADERS or name.startswith(_RECORDED_PREFIXES)
        }
        chunks = [text_or_binary(piece) for piece in pieces]
        response = Response(draft.status, headers, chunks, draft.complete)
        return Exchange(_describe(draft.sent, self._concealment), response)


class _Tape:
    """Passes the pieces of a body on, and records them."""

    is_complete = False  # its end is recorded once that is read

    def __init__(
        self, pieces: AsyncIterator[bytes], draft: _ExchangeDraft, recorder: _Recorder
    ) -> None:
        self._pieces = pieces
        self._draft = draft
        self._recorder = recorder

    async def read(self, _deadline: float) -> bytes:
        piece = await anext(self._pieces, b"")
        if not piece:
            self._draft.complete = True
            return b""
        self._recorder.count(len(piece))
        self._draft.pieces.append(piece)
        return piece

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


def _describe(sent: _Sent, concealment: Concealment) -> Request:
    """Describe a request as it is recorded and compared: without secrets, JSON in one order."""
    parts = urlsplit(sent.url)
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    if parts.query:
        place += f"?{urlencode(parse_qsl(parts.query, keep_blank_values=True))}"
    place = concealment.conceal_text(place)
    (body,) = concealment.conceal([sent.content or b""])
    try:
        json = msgspec.Raw(serde.dumps(serde.loads(body)))
    except InvalidJSONError:
        return Request(sent.method, place, content=text_or_binary(body))
    return Request(sent.method, place, json=json)


WireAPI: TypeAlias = Literal["anthropic-messages", "openai-chat", "openai-responses", "gemini"]
"""The API of a request."""


def request_from_wire(body: Mapping[str, object], api: WireAPI) -> core.ModelRequest:
    """Read the body of a recorded request; a provider of this API writes the same body of it.

    What has no typed field is in the `extra` of messages, blocks and tools, and in `options`, where
    `msgspec.UNSET` leaves out what the provider would add. `same_request` compares two bodies.

    Args:
        body: the JSON object that was sent.
        api: "anthropic-messages", "openai-chat", "openai-responses" or "gemini".

    Raises:
        ValueError: there is no such API.

    Example:
        >>> body = {"model": "m", "messages": [{"role": "user", "content": "hi", "name": "Ann"}]}
        >>> [message] = request_from_wire(body, "openai-chat").messages
        >>> message.text, message.extra
        ('hi', {'name': 'Ann'})
    """
    match api:
        case "anthropic-messages":
            return read_anthropic_request(body)
        case "openai-chat":
            return read_chat_request(body)
        case "openai-responses":
            return read_responses_request(body)
        case "gemini":
            return read_gemini_request(body)
        case _:
            raise ValueError(f"no such API: {api!r}")
