"""The kernel reads trio's clock, and what loops share one clock of the process."""

import ast
from pathlib import Path

import greenroom.runtime

PACKAGE = Path(greenroom.runtime.__file__).parents[1]


def imported(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def test_no_module_of_the_kernel_reads_another_clock_than_trio_s():
    modules = [*(PACKAGE / "runtime").rglob("*.py"), *(PACKAGE / "resilience").rglob("*.py")]
    assert len(modules) > 20
    others = {
        (path.name, name)
        for path in modules
        for name in imported(path)
        if name.split(".")[0] in {"time", "datetime", "threading", "asyncio", "sched"}
        or name in {"greenroom.core._internal.utc_now", "greenroom.core._internal.timestamp"}
    }
    # The watchdog looks at the event loop from outside of it; the other two are for code outside of
    # it.
    outside = {
        ("runtime_thread.py", "threading"),
        ("thread_calls.py", "threading"),
        ("thread_calls.py", "asyncio"),
    }
    # What several loops share has one clock, in one module, and locks.
    shared = {(f"{name}.py", "threading") for name in ("breaker", "clock", "gate", "waiting")}
    shared.add(("clock.py", "time"))
    assert others == {("watchdog.py", "threading"), ("watchdog.py", "time")} | outside | shared


def test_the_kernel_imports_neither_models_nor_tools():
    names = {name for path in PACKAGE.glob("runtime/*.py") for name in imported(path)}
    ours = {name.split(".")[1] for name in names if name.startswith("greenroom.")}
    assert ours == {"_lazy", "core", "resilience", "runtime", "schemas", "session"}
