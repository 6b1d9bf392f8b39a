"""The settings of the process that a run may change, each read before it and put back after it.

`SETTINGS` is one table: a row has a name, a function that reads what is set, and one that sets it
again. A setting of many parts, such as the levels of all loggers, is read as a mapping, so that a
report names the part.
"""

import contextlib
import faulthandler
import gc
import locale
import logging
import os
import signal
import socket
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TypeVar, cast

from greenroom.core._internal import clip

if sys.platform != "win32":
    import resource

_T = TypeVar("_T")


@dataclass(frozen=True)
class Setting:
    """A setting of the process: how to read it, and how to put it back.

    Attributes:
        name: what it is called, such as "the umask"; of a mapping, what comes before each key.
        read: returns the value, or a mapping of all its parts.
        restore: takes what `read` has returned.
        is_shown: whether a report may quote the value; keys may be in the environment.
    """

    name: str
    read: Callable[[], object]
    restore: Callable[[object], object]
    is_shown: bool = True


def _setting(
    name: str, read: Callable[[], _T], restore: Callable[[_T], object], *, is_shown: bool = True
) -> Setting:
    """Make a row whose functions agree on the type of the value."""
    return Setting(name, read, cast("Callable[[object], object]", restore), is_shown)


def _attribute(owner: object, name: str) -> Setting:
    """Make a row of an attribute, such as `sys.stdout`."""
    title = f"{getattr(owner, '__name__', owner)}.{name}"
    return _setting(title, lambda: getattr(owner, name), lambda value: setattr(owner, name, value))


def _list(owner: object, name: str) -> Setting:
    """Make a row of a list, which is changed in place or replaced."""

    def read() -> tuple[list[object], list[object]]:
        items = cast("list[object]", getattr(owner, name))
        return items, [*items]

    def restore(value: tuple[list[object], list[object]]) -> None:
        value[0][:] = value[1]
        setattr(owner, name, value[0])

    return _setting(f"{getattr(owner, '__name__', owner)}.{name}", read, restore, is_shown=False)


def _restore_environment(before: Mapping[str, str]) -> None:
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)


def _cwd() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "which is gone"


def _umask() -> int:
    mask = os.umask(0o077)  # there is no other way to read it
    os.umask(mask)
    return mask


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _signal_handlers() -> dict[str, object]:
    return {each.name: signal.getsignal(each) for each in signal.Signals}


def _restore_signal_handlers(before: Mapping[str, object]) -> None:
    if not _is_main_thread():  # Python sets them there alone
        return
    for name, handler in before.items():
        number = signal.Signals[name]
        if signal.getsignal(number) is not handler and (callable(handler) or handler in (0, 1)):
            signal.signal(number, handler)


def _loggers() -> Iterator[tuple[str, logging.Logger]]:
    yield "the root logger", logging.root
    for name, logger in [*logging.root.manager.loggerDict.items()]:
        if isinstance(logger, logging.Logger):
            yield f"the logger {name}", logger


_PARTS = ("level", "disabled", "propagate", "handlers", "filters")
_FRESH: tuple[object, ...] = (0, False, True, [], [])


def _logging() -> dict[str, object]:
    parts: dict[str, object] = {"logging.disable": logging.root.manager.disable}
    for title, logger in _loggers():
        for part, fresh in zip(_PARTS, _FRESH, strict=True):
            value = getattr(logger, part)
            value = [*value] if isinstance(value, list) else value
            if value != fresh:  # a logger that is merely there changes nothing
                parts[f"{part} of {title}"] = value
    return parts


def _restore_logging(before: Mapping[str, object]) -> None:
    for title, logger in _loggers():
        for part, fresh in zip(_PARTS, _FRESH, strict=True):
            value = before.get(f"{part} of {title}", fresh)
            if getattr(logger, part) != value:
                setattr(logger, part, [*value] if isinstance(value, list) else value)
    logging.disable(cast("int", before["logging.disable"]))  # loggers look up their levels again


_PATCHED = [name for name in sys.stdlib_module_names if not name.startswith("_")]


def _modules() -> dict[str, ModuleType]:
    return {name: sys.modules[name] for name in _PATCHED if name in sys.modules}


def _module_contents() -> dict[str, Mapping[str, object]]:
    """Return what Python's own modules hold, whose functions and classes a patch replaces."""
    return {f"{name}.": vars(module) for name, module in _modules().items()}


def _restore_module_contents(before: Mapping[str, Mapping[str, object]]) -> None:
    for name, module in _modules().items():
        for attribute, value in before.get(f"{name}.", {}).items():
            if vars(module).get(attribute) is not value and _is_function(attribute, value):
                setattr(module, attribute, value)


def _is_function(attribute: str, value: object) -> bool:
    return not attribute.startswith("_") and callable(value)


def _limits() -> dict[str, tuple[int, int]]:
    return {
        name: resource.getrlimit(getattr(resource, name))
        for name in dir(resource)
        if name.startswith("RLIMIT_")
    }


def _restore_limits(before: Mapping[str, tuple[int, int]]) -> None:
    for name, value in before.items():
        number = getattr(resource, name)
        if resource.getrlimit(number) != value:
            with contextlib.suppress(ValueError, OSError):  # a hard limit only falls
                resource.setrlimit(number, (value[0], resource.getrlimit(number)[1]))


def _restore_locale(before: str) -> None:
    with contextlib.suppress(locale.Error):
        locale.setlocale(locale.LC_ALL, before)


def _affinity() -> frozenset[int]:
    return frozenset(os.sched_getaffinity(0))


_ON_UNIX: Sequence[Setting] = (
    ()
    if sys.platform == "win32"
    else (
        _setting("the resource limit ", _limits, _restore_limits),
        _setting(
            "the signals that are blocked",
            lambda: frozenset(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
            lambda mask: signal.pthread_sigmask(signal.SIG_SETMASK, mask),
        ),
        _setting(
            "an alarm (signal.alarm, signal.setitimer)",
            lambda: signal.getitimer(signal.ITIMER_REAL)[0] > 0,
            lambda is_set: is_set or signal.setitimer(signal.ITIMER_REAL, 0),
        ),
        _setting("the priority (os.nice)", lambda: os.nice(0), lambda _: None),
    )
)
_ON_LINUX: Sequence[Setting] = (
    (
        _setting(
            "the processors (os.sched_setaffinity)",
            _affinity,
            lambda processors: os.sched_setaffinity(0, processors),
        ),
    )
    if hasattr(os, "sched_getaffinity")
    else ()
)

SETTINGS: Sequence[Setting] = (
    _setting("the environment's ", lambda: {**os.environ}, _restore_environment, is_shown=False),
    _setting("the working directory", _cwd, os.chdir),
    _setting("the umask", _umask, os.umask),
    _setting("the signal handler of ", _signal_handlers, _restore_signal_handlers),
    _setting("the locale", lambda: locale.setlocale(locale.LC_ALL), _restore_locale),
    _setting("the ", _logging, _restore_logging),
    _setting("the module ", _modules, sys.modules.update, is_shown=False),
    _setting("", _module_contents, _restore_module_contents, is_shown=False),
    _list(warnings, "filters"),
    _list(sys, "path"),
    _list(sys, "meta_path"),
    _list(sys, "argv"),
    _attribute(sys, "stdin"),
    _attribute(sys, "stdout"),
    _attribute(sys, "stderr"),
    _attribute(sys, "dont_write_bytecode"),
    _attribute(tempfile, "tempdir"),
    _attribute(logging, "raiseExceptions"),
    _setting("the trace function (sys.settrace)", sys.gettrace, sys.settrace),
    _setting("the profile function (sys.setprofile)", sys.getprofile, sys.setprofile),
    _setting("the trace function of new threads", threading.gettrace, threading.settrace),
    _setting("the recursion limit", sys.getrecursionlimit, sys.setrecursionlimit),
    _setting("the switch interval", sys.getswitchinterval, sys.setswitchinterval),
    _setting("the digits of an int", sys.get_int_max_str_digits, sys.set_int_max_str_digits),
    _setting("the time limit of sockets", socket.getdefaulttimeout, socket.setdefaulttimeout),
    _setting("the stack size of threads", threading.stack_size, threading.stack_size),
    _setting("the thresholds of gc", gc.get_threshold, lambda value: gc.set_threshold(*value)),
    _setting(
        "garbage collection (gc.disable)",
        gc.isenabled,
        lambda is_on: gc.enable() if is_on else gc.disable(),
    ),
    _setting(
        "the fault handler",
        faulthandler.is_enabled,
        lambda is_on: None if is_on else faulthandler.disable(),
    ),
    *_ON_UNIX,
    *_ON_LINUX,
)
"""What is watched; a row more is one setting more."""

_MAX_SHOWN = 60  # characters of a value


class ProcessSettings:
    """The settings of the process at one moment."""

    def __init__(self) -> None:
        self._values = [_copy(each.read()) for each in SETTINGS]

    def changed(self) -> Iterator[str]:
        """Name each setting that is another one now, with what it is now where that may be told."""
        for setting, before in zip(SETTINGS, self._values, strict=True):
            now = setting.read()
            if now != before:
                for name, value in _differences(before, now):
                    yield f"{setting.name}{name}{_show(setting, value)}"

    def restore(self) -> None:
        """Set again what has changed."""
        for setting, before in zip(SETTINGS, self._values, strict=True):
            now = setting.read()
            if now != before and any(True for _ in _differences(before, now)):
                setting.restore(before)


def _copy(value: object) -> object:
    if not isinstance(value, dict):
        return value
    return {key: {**each} if isinstance(each, dict) else each for key, each in value.items()}


def _differences(before: object, now: object) -> Iterator[tuple[str, object]]:
    """Find the parts of a setting that differ, each with its value now."""
    if not isinstance(before, dict) or not isinstance(now, dict):
        yield "", now
        return
    for name in sorted(before.keys() | now.keys()):
        was, value = before.get(name), now.get(name)
        if was == value:
            continue
        if isinstance(was, dict) and isinstance(value, dict):
            for attribute, function in was.items():
                if value.get(attribute) is not function and _is_function(attribute, function):
                    yield f"{name}{attribute}", value.get(attribute)
        elif was is not None or not isinstance(value, dict | ModuleType):  # loaded, not replaced
            yield name, value


def _show(setting: Setting, value: object) -> str:
    is_plain = isinstance(value, str | int | float | tuple | frozenset | list)
    return f", now {clip(repr(value), _MAX_SHOWN)}" if setting.is_shown and is_plain else ""
