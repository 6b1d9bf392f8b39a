"""A switch for tests: no request to a real model leaves this machine."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from greenroom.llm import FORBID_VARIABLE


@contextmanager
def forbid_model_calls() -> Iterator[None]:
    """Forbid calls of real models inside the block, in this process and in those that it starts.

    Whatever would send a request to a host that is not this machine raises
    `ModelCallForbiddenError` before anything is sent. Scripted, recorded and offline models go on
    working, and so do servers on 127.0.0.1 and cassettes that replay.

    It sets `GREENROOM_FORBID_MODEL_CALLS`, which holds for the whole process.

    Example:
        >>> import trio
        >>> from greenroom import AnthropicProvider, Message
        >>> from greenroom.llm import ModelRequest
        >>> llm = AnthropicProvider("claude-sonnet-5", api_key="sk-ant-1", env={})
        >>> with forbid_model_calls():
        ...     trio.run(llm.generate, ModelRequest(messages=(Message.user("Hello."),)))
        Traceback (most recent call last):
        greenroom.core.errors.ModelCallForbiddenError: a request would have gone to anthropic ...
    """
    before = os.environ.get(FORBID_VARIABLE)
    os.environ[FORBID_VARIABLE] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(FORBID_VARIABLE, None)
        else:
            os.environ[FORBID_VARIABLE] = before
