"""Asks servers of one's own how many tokens their models take.

Such servers choose a window when they load a model, often far below what the model could take, and
some cut off the beginning of a longer request without a word. Each says how large the window is in
a place of its own:

- Ollama: the `num_ctx` of the model's file (`/api/show`), else the `context_length` of the loaded
  model (`/api/ps`), which a request without a prompt loads (`/api/generate`). What `/api/show` says
  under `model_info` is the model's maximum, which is used only where a model runs at Ollama's own
  servers.
- vLLM, SGLang: `max_model_len` in `/v1/models`.
- LM Studio: `loaded_context_length` in `/api/v0/models`, and until then `max_context_length`.
- llama.cpp: `n_ctx` in `/props`.

The answers are kept as long as the process lives. None of them can fail a turn.
"""

import re
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import trio
from msgspec.structs import replace
from trio.lowlevel import RunVar

from greenroom.core import GreenroomError
from greenroom.core._internal import serde
from greenroom.llm.endpoint import Endpoint, ModelTimeouts
from greenroom.llm.http_stream import fetch
from greenroom.llm.json_fields import as_dict, as_int, as_list, as_text, without
from greenroom.llm.model_errors import ModelCallForbiddenError, ModelConnectionError
from greenroom.llm.windows import SMALLEST_WINDOW, UNKNOWN_WINDOW, ContextWindow

if TYPE_CHECKING:
    from greenroom.net._internal import HttpTransport

OLLAMA_DEFAULT = 4_096
"""Ollama's window on a machine with less than 24 GiB of graphics memory."""

_SECONDS = 3.0
_TIMEOUTS = ModelTimeouts(connect=1.0, first_event=2.0, between_events=2.0, request=_SECONDS)
_LIMIT = 4 * 1024 * 1024  # bytes; Ollama repeats a model's licence and template
_MODELS = 64
_NUM_CTX = re.compile(r'^\s*num_ctx\s+"?(\d+)', re.MULTILINE)

_Key: TypeAlias = tuple[str, str]
# Values only, so it may be shared by runs of trio and by threads.
_known: OrderedDict[_Key, ContextWindow] = OrderedDict()
_asking = RunVar[dict[_Key, trio.Lock]]("the models that are asked for right now")


@dataclass(frozen=True)
class LocalModel:
    """A model of a server of one's own.

    Attributes:
        client: sends the requests.
        endpoint: the server, with the base URL that ends in `/v1`, if it has such a path.
        name: the model's name.
        is_ollama: whether the server is Ollama.
    """

    client: "HttpTransport"
    endpoint: Endpoint
    name: str
    is_ollama: bool

    async def find_window(self, *, has_replied: bool, load: bool) -> ContextWindow:
        """Return the window of the model, as the server says; the first call asks it.

        Args:
            has_replied: whether the model is loaded. Without it the answer may be a preliminary
                one, which is not final, and the first call with it asks again.
            load: whether to load the model if it is Ollama's, and to ask again.
        """
        key = (self.endpoint.url, self.name)
        locks = _asking.get({})
        _asking.set(locks)
        lock = locks.setdefault(key, trio.Lock())
        try:
            async with lock:  # the tasks that wait get the answer of the one that asks
                return await self._find_window(key, has_replied, load)
        finally:
            if not lock.locked():
                locks.pop(key, None)

    async def _find_window(self, key: _Key, has_replied: bool, load: bool) -> ContextWindow:
        known = _known.get(key)
        if known is not None and (known.is_final or not (has_replied or load)):
            return known
        try:
            is_loaded = has_replied or (load and await self._load())
            window = await self._ask(is_again=known is not None, is_loaded=is_loaded)
        except (ModelConnectionError, ModelCallForbiddenError):
            return replace(UNKNOWN_WINDOW, is_final=False)  # the request itself will say so
        _known[key] = window
        if len(_known) > _MODELS:
            _known.popitem(last=False)
        return window

    async def _load(self) -> bool:
        """Have Ollama load the model, as its next request would; return whether it did."""
        if not self.is_ollama:
            return False
        request = {"model": self.name, "stream": False}
        return bool(await self._get("/api/generate", request, timeouts=ModelTimeouts()))

    async def _ask(self, *, is_again: bool, is_loaded: bool) -> ContextWindow:
        window: ContextWindow | None = None
        is_complete = False
        with trio.move_on_after(_SECONDS):
            if self.is_ollama:
                window = await self._ask_ollama(is_again=is_again, is_loaded=is_loaded)
            else:
                window = await self._ask_others(is_loaded=is_loaded)
            is_complete = True
        if window is not None:
            return window
        if self.is_ollama:
            return ContextWindow(OLLAMA_DEFAULT, "assumed", is_final=is_loaded)
        return replace(UNKNOWN_WINDOW, is_final=is_complete or is_loaded)

    async def _ask_ollama(self, *, is_again: bool, is_loaded: bool) -> ContextWindow | None:
        if not is_again:
            shown = await self._get("/api/show", {"model": self.name})
            if window := _read_shown(shown):
                return window
        loaded = await self._get("/api/ps")
        for each in map(as_dict, as_list(loaded.get("models"))):
            if _add_tag(self.name) in (
                _add_tag(as_text(each.get(key))) for key in ("name", "model")
            ):
                # Another program may have loaded it with a window of its own.
                return _window(each.get("context_length"), is_final=is_loaded)
        return None

    async def _ask_others(self, *, is_loaded: bool) -> ContextWindow | None:
        listed = self._find(await self._get("/models", base=self.endpoint.url))
        if window := _window(listed.get("max_model_len")):
            return window
        listed = self._find(await self._get("/api/v0/models"))
        if window := _window(listed.get("loaded_context_length")):
            return window
        if window := _window(listed.get("max_context_length"), is_final=is_loaded):
            return window
        props = await self._get("/props")
        return _window(as_dict(props.get("default_generation_settings")).get("n_ctx"))

    def _find(self, listing: Mapping[str, object]) -> dict[str, object]:
        """Return the entry of the model in a list, with the window of the model it adapts."""
        listed = map(as_dict, as_list(listing.get("data")))
        entries = {as_text(each.get("id")): each for each in listed}
        found = entries.get(self.name, {})
        return {**entries.get(as_text(found.get("parent")), {}), **without(found)}

    async def _get(
        self,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        base: str = "",
        timeouts: ModelTimeouts = _TIMEOUTS,
    ) -> dict[str, object]:
        """Ask the server; what it answers with an error, or not with an object, is empty.

        Raises:
            ModelConnectionError: the server is not there.
            ModelCallForbiddenError: calls of real models are forbidden.
        """
        base = base or self.endpoint.url.removesuffix("/v1")
        endpoint = replace(self.endpoint, url=f"{base}{path}")
        content = None if body is None else serde.dumps(body)
        try:
            answer = await fetch(self.client, endpoint, content, timeouts, _LIMIT)
            return as_dict(serde.loads(answer))
        except (ModelConnectionError, ModelCallForbiddenError):
            raise
        except GreenroomError:
            return {}


def _read_shown(shown: Mapping[str, object]) -> ContextWindow | None:
    """Read what Ollama says of a model."""
    if shown.get("remote_host"):  # it runs at Ollama, with its whole window
        facts = as_dict(shown.get("model_info")).items()
        return _window(next((size for name, size in facts if name.endswith(".context_length")), 0))
    found = _NUM_CTX.search(as_text(shown.get("parameters")))
    return _window(int(found[1][:12])) if found else None


def _window(tokens: object, *, is_final: bool = True) -> ContextWindow | None:
    size = as_int(tokens) or 0
    return ContextWindow(size, "server", is_final) if size >= SMALLEST_WINDOW else None


def _add_tag(name: str) -> str:
    """Return the name of a model of Ollama with its tag, as `/api/ps` lists it."""
    has_tag = ":" in name.rpartition("/")[2]
    return (name if has_tag else f"{name}:latest").lower()
