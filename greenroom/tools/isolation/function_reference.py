"""Where another process finds a function: by module and name, as an import does."""

import functools
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import ParamSpec

from greenroom.core import ToolError, Wire

P = ParamSpec("P")

SCRIPT_NAME = "__mp_main__"
"""The name under which a script is loaded again, the same as in the standard multiprocessing."""

_GUARD = re.compile(r"^if\b.*__name__", re.MULTILINE)

_loading: set[str] = set()
_workers: set[int] = set()


def become_worker() -> None:
    """Say that this process runs tools for another one."""
    _workers.add(os.getpid())


def is_worker() -> bool:
    """Whether this process runs tools for another one, with `isolation="process"`."""
    return os.getpid() in _workers


def is_loading_script() -> bool:
    """Whether this process is loading a script to find a function in it."""
    return bool(_loading)


class FunctionReference(Wire, frozen=True):
    """The place of a function.

    Attributes:
        module: the name of its module.
        qualname: its qualified name there.
        script: the path of the program that it stands in, where that was run as a script.
        file: the path of its module, for one that an import by name does not find: test runners and
            plug-in loaders load files that stand on no path.
    """

    module: str
    qualname: str
    script: str = ""
    file: str = ""

    @classmethod
    def of(cls, function: Callable[P, object], tool: str) -> "FunctionReference":
        """Return where a function can be found.

        Raises:
            ToolError: another process can't find it.
        """
        if "<" in function.__qualname__ or getattr(function, "__self__", None) is not None:
            raise ToolError(
                f"tool {tool}: another process can't find {function.__qualname__}",
                hint="define the function at the top of a module, with a name of its own",
            )
        if function.__module__ != "__main__":
            return cls(function.__module__, function.__qualname__, file=_file(function.__module__))
        main = sys.modules["__main__"]
        spec = main.__spec__
        if spec is not None and spec.name != "__main__":
            return cls(spec.name, function.__qualname__)  # it was run as `python -m …`
        return cls("__main__", function.__qualname__, _script(main, tool))

    def check(self, function: Callable[P, object], tool: object) -> None:
        """Make sure that in this process the tool, or its function, is what stands in this place.

        Raises:
            ToolError: something else stands there, which another process would call instead.
        """
        found = _look_up(sys.modules.get(function.__module__), self.qualname)
        if found is not tool and found is not function:
            raise ToolError(
                f"{function.__module__}.{self.qualname} is not the function of {tool!r}, so another "
                "process can't find that",
                hint="give it a name of its own at the top of the module",
            )

    def load(self) -> object:
        """Import what stands in this place.

        Raises:
            ToolError: nothing does.
        """
        module = _load_script(self.script) if self.script else _import(self.module, self.file)
        found = _look_up(module, self.qualname)
        if found is None:
            raise ToolError(
                f"another process that loads {self.script or self.module} finds no {self.qualname}",
                hint="define it at the top of the module, under no condition",
            )
        return found


def _look_up(module: object, qualname: str) -> object:
    return functools.reduce(
        lambda found, name: getattr(found, name, None), qualname.split("."), module
    )


def _script(main: ModuleType, tool: str) -> str:
    """Return the path of the script that runs, if it can be loaded without being run again."""
    path = Path(getattr(main, "__file__", None) or "")
    if not path.is_file():
        raise ToolError(
            f"tool {tool}: another process can't find a function of an interactive session",
            hint="put it into a module, and import it from there",
        )
    if not _GUARD.search(path.read_text(encoding="utf-8", errors="replace")):
        raise ToolError(
            f"tool {tool}: another process that loads {path.name} would run all of it",
            hint='put what starts the program under `if __name__ == "__main__":`',
        )
    return str(path.absolute())


def _file(module: str) -> str:
    path = getattr(sys.modules.get(module), "__file__", None)
    return str(Path(path).absolute()) if path else ""


def _import(name: str, file: str) -> ModuleType:
    """Import a module by its name; where that finds none, load the file that it stands in."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as missing:
        # Only for want of this module, or of a package above it: not of one that it imports.
        if not file or not f"{name}.".startswith(f"{missing.name}."):
            raise
    module = _module(name, file)
    sys.modules[name] = module
    try:
        _execute(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _module(name: str, file: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, file, loader=SourceFileLoader(name, file))
    assert spec is not None  # the loader is given
    return importlib.util.module_from_spec(spec)


def _execute(module: ModuleType) -> None:
    assert module.__spec__ is not None  # `_module` has made it
    assert module.__spec__.loader is not None
    module.__spec__.loader.exec_module(module)


def _load_script(script: str) -> ModuleType:
    """Load a script as a module of another name, so that its guarded part does not run."""
    # The standard multiprocessing gives that name to whatever is the main module when it is imported.
    loaded = sys.modules.get(SCRIPT_NAME)
    if loaded is not None and getattr(loaded, "__file__", None) == script:
        return loaded
    module = _module(SCRIPT_NAME, script)
    own = sys.modules["__main__"]
    # Before it runs: dataclasses and pydantic look their module up while a class is made.
    sys.modules["__main__"] = sys.modules[SCRIPT_NAME] = module
    _loading.add(script)
    try:
        _execute(module)
    except BaseException:
        sys.modules["__main__"] = own
        del sys.modules[SCRIPT_NAME]
        raise
    finally:
        _loading.discard(script)
    return module
