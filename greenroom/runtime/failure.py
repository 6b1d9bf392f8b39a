"""Failures: which of them end a turn, which crash an agent, and what subscribers are told."""

import trio

from greenroom.core import (
    MAX_ERROR_TEXT,
    Error,
    GreenroomError,
    clip,
    leaves,
    message_of,
    valid_unicode,
)

__all__ = ["apart", "error_chunk", "is_cancelled", "is_typed", "unwrapped", "without_cancelled"]


def is_typed(error: BaseException) -> bool:
    """Whether an error is one of ours, or a group of nothing else."""
    return all(isinstance(leaf, GreenroomError) for leaf in leaves(error))


def is_cancelled(error: BaseException | None) -> bool:
    """Whether this is a cancel, or a group of nothing else."""
    return error is not None and all(isinstance(leaf, trio.Cancelled) for leaf in leaves(error))


def apart(error: BaseException | None) -> tuple[BaseException | None, BaseException | None]:
    """Split what left a turn's body: the typed failure that ends the turn, and what goes further.

    A cancel goes further even where typed errors came with it; together with a bug, all of it does.
    """
    if error is None:
        return None, None
    if is_typed(error):
        return error, None
    found = leaves(error)
    cancelled = [leaf for leaf in found if isinstance(leaf, trio.Cancelled)]
    typed = [leaf for leaf in found if isinstance(leaf, GreenroomError)]
    if cancelled and typed and len(cancelled) + len(typed) == len(found):
        return ExceptionGroup("the turn failed", typed), cancelled[0]
    return None, error


def without_cancelled(error: BaseException) -> BaseException:
    """Take the cancels out of a group that holds other errors too."""
    others = [leaf for leaf in leaves(error) if not isinstance(leaf, trio.Cancelled)]
    if not others or len(others) == len(leaves(error)):
        return error
    return BaseExceptionGroup("errors beside a cancel", others)


def unwrapped(error: BaseException) -> BaseException:
    """Take a group that holds one error, beside cancels, for that error."""
    found = leaves(error)
    others = [leaf for leaf in found if not isinstance(leaf, trio.Cancelled)]
    if len(others) == 1:
        return others[0]
    return error if others else found[0]


def error_chunk(error: BaseException) -> Error:
    """Tell subscribers of an error: its message, its class, and what to do about it."""
    kind = type(error).__name__
    if isinstance(error, GreenroomError):
        return Error(_clip(error.message), kind, _clip(error.hint))
    return Error(_clip("; ".join(map(message_of, leaves(error)))) or kind, kind)


def _clip(text: str) -> str:
    return valid_unicode(clip(text, MAX_ERROR_TEXT))
