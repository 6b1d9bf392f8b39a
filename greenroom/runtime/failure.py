"""Failures: which of them end a turn, which crash an agent, and what subscribers are told."""

import trio

from greenroom.core import Error, GreenroomError

__all__ = ["apart", "describe", "error_chunk", "is_cancelled", "is_typed", "leaves", "unwrapped"]


def is_typed(error: BaseException) -> bool:
    """Whether an error is one of ours, or a group of nothing else."""
    return all(isinstance(leaf, GreenroomError) for leaf in leaves(error))


def is_cancelled(error: BaseException | None) -> bool:
    """Whether this is a cancel, or a group of nothing else."""
    return error is not None and all(isinstance(leaf, trio.Cancelled) for leaf in leaves(error))


def leaves(error: BaseException) -> list[BaseException]:
    """Return the single exceptions that a group is made of."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in leaves(part)]
    return [error]


def apart(error: BaseException | None) -> tuple[BaseException | None, BaseException | None]:
    """Split what left a turn's body: the typed failure that ends the turn, and what goes further.

    A cancel goes further even where typed errors came with it; together with a bug, all of it does.
    """
    if error is None:
        return None, None
    if is_typed(error):
        return error, None
    if isinstance(error, BaseExceptionGroup):
        cancelled, rest = error.split(trio.Cancelled)
        if cancelled is not None and rest is not None and is_typed(rest):
            return rest, cancelled
    return None, error


def unwrapped(error: BaseException) -> BaseException:
    """Take a group that holds one error, beside cancels, for that error."""
    found = leaves(error)
    others = [leaf for leaf in found if not isinstance(leaf, trio.Cancelled)]
    if len(others) == 1:
        return others[0]
    return error if others else found[0]


def describe(error: BaseException | None) -> str:
    """Say in one line what went wrong; empty where nothing did."""
    if error is None:
        return ""
    return "; ".join(f"{type(leaf).__name__}: {leaf}" for leaf in leaves(error))


def error_chunk(error: BaseException) -> Error:
    """Tell subscribers of an error: its message, its class, and what to do about it."""
    if isinstance(error, BaseExceptionGroup):
        return Error("; ".join(str(leaf) for leaf in leaves(error)), type(error).__name__)
    if isinstance(error, GreenroomError):
        return Error(error.message, type(error).__name__, error.hint)
    return Error(str(error) or type(error).__name__, type(error).__name__)
