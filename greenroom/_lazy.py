"""Front doors that load what they name at its first use.

The one list of such a package's names is its stub, `__init__.pyi`, which type checkers read as well:
`from greenroom.session import AgentSession as AgentSession` says that the name is offered, and where it
comes from. (The scheme is that of lazy-loader, which scientific Python packages use.)
"""

import ast
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path


def open_lazily(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return the `__getattr__`, `__dir__` and `__all__` of a package whose stub lists its names.

    Args:
        package: its `__name__`.
    """
    module = sys.modules[package]
    homes = _read_stub(Path(str(module.__file__)).with_suffix(".pyi"))
    names = sorted(homes)

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(import_module(homes[name]), name)
        setattr(module, name, value)
        return value

    return get, names.copy, names


def _read_stub(path: Path) -> dict[str, str]:
    imports = (
        node for node in ast.parse(path.read_text()).body if isinstance(node, ast.ImportFrom)
    )
    return {alias.name: str(node.module) for node in imports for alias in node.names}
