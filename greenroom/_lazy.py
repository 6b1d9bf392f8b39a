"""Front doors that load what they name at its first use.

The one list of such a package's names is its stub, `__init__.pyi`, which type checkers read as
well: `from greenroom.session import AgentSession as AgentSession` says that the name is offered,
and where it comes from. (The scheme is that of lazy-loader, which scientific Python packages use.)
"""

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:  # it takes longer to import than all of this package
    from importlib.abc import ResourceLoader


def open_lazily(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a package whose stub lists its names.

    Args:
        package: its `__name__`.
    """
    module = sys.modules[package]
    homes = _read_stub(module)
    names = sorted(homes)
    module.__class__ = _Front
    module.__dict__["_offered"] = frozenset(homes)

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(homes[name]), name)
        setattr(module, name, value)
        return value

    return get, names.copy, names


class _Front(ModuleType):
    """A package whose names stay what they are where a module of it, once loaded, has the same."""

    _offered: frozenset[str]

    def __setattr__(self, name: str, value: object) -> None:
        if not (isinstance(value, ModuleType) and name in self._offered):
            super().__setattr__(name, value)


def _read_stub(module: ModuleType) -> dict[str, str]:
    """Read where each name comes from; through the loader, since packages may lie in an archive."""
    path = str(Path(str(module.__file__)).with_suffix(".pyi"))
    loader = cast("ResourceLoader", module.__spec__ and module.__spec__.loader)
    try:
        stub = loader.get_data(path)
    except OSError as error:
        raise ImportError(
            f"{path} is missing, which lists what {module.__name__} offers: put it beside the code"
        ) from error
    homes, home = dict[str, str](), ""
    for line in stub.decode().splitlines():  # a tenth of what it takes to parse it
        names = line
        if line.startswith("from "):
            home, _, names = line.removeprefix("from ").partition(" import ")
        for each in names.split(","):
            name, _, alias = each.strip(" (").partition(" as ")
            if alias:
                homes[name] = home
    return homes
