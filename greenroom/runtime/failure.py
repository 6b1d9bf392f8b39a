"""Failures: which of them end a turn, which crash an agent, and how subscribers learn of them."""

import trio

from greenroom.core import (
    MAX_ERROR_TEXT,
    Error,
    GreenroomError,
    clip,
    is_a,
    leaves,
    message_of,
    read_text,
    type_name,
)


def is_typed(error: BaseException) -> bool:
    """Whether an error is one of ours, or a group of nothing else."""
    return all(is_a(leaf, GreenroomError) for leaf in leaves(error))


def is_cancelled(error: BaseException | None) -> bool:
    """Whether this is a cancel, or a group of nothing else."""
    return error is not None and all(is_a(leaf, trio.Cancelled) for leaf in leaves(error))


def split_failure(error: BaseException | None) -> tuple[BaseException | None, BaseException | None]:
    """Split what left a turn's body: the typed failure that ends the turn, and what goes further.

    A cancel goes further even where typed errors came with it; together with a bug, all of it does.
    """
    if error is None:
        return None, None
    if is_typed(error):
        return error, None
    found = leaves(error)
    cancelled = [leaf for leaf in found if is_a(leaf, trio.Cancelled)]
    typed = [leaf for leaf in found if is_a(leaf, GreenroomError)]
    if cancelled and typed and len(cancelled) + len(typed) == len(found):
        return ExceptionGroup("the turn failed", typed), cancelled[0]
    return None, error


def strip_cancelled(error: BaseException) -> BaseException:
    """Take the cancels out of a group that holds other errors too."""
    others = [leaf for leaf in leaves(error) if not is_a(leaf, trio.Cancelled)]
    if not others or len(others) == len(leaves(error)):
        return error
    return BaseExceptionGroup("errors beside a cancel", others)


def unwrap(error: BaseException) -> BaseException:
    """Take a group that holds one error, beside cancels, for that error."""
    found = leaves(error)
    others = [leaf for leaf in found if not is_a(leaf, trio.Cancelled)]
    if len(others) == 1:
        return others[0]
    return error if others else found[0]


def must_propagate(error: BaseException) -> bool:
    """Whether an error must not be kept as a value: a cancel, or a KeyboardInterrupt in it."""
    return is_cancelled(error) or any(is_a(leaf, KeyboardInterrupt) for leaf in leaves(error))


def messages_of(error: BaseException) -> str:
    """Return the messages of an error's leaves, clipped."""
    parts: list[str] = []
    length = 0
    for leaf in leaves(error):
        parts.append(message_of(leaf))
        length += len(parts[-1])
        if length > MAX_ERROR_TEXT:
            break
    return clip("; ".join(parts), MAX_ERROR_TEXT)


def error_chunk(error: BaseException) -> Error:
    """Tell subscribers of an error: its message, its class, and what to do about it."""
    kind = type_name(error)
    # A subclass may have set these to anything, or not at all.
    if is_a(error, GreenroomError):
        return Error(read_text(lambda: error.message), kind, read_text(lambda: error.hint))
    return Error(messages_of(error) or kind, kind)
