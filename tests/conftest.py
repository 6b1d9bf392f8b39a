"""Nobody's own files, keys or proxies decide whether a test passes, and no test touches them."""

import faulthandler
import gc
import os
import random
import re
import signal
import subprocess
import time
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from _pytest.faulthandler import fault_handler_stderr_fd_key
from hypothesis import HealthCheck, settings

OURS = ("ANTHROPIC_", "OPENAI_", "GREENROOM_MODEL", "GREENROOM_FORBID", "OLLAMA_", "HF_TOKEN")
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


HERE = Path(__file__).parent
PROGRAM = {"terminal_program", "warm_python"}
"""Modules of ours that start the command, an example or a terminal."""

OUTSIDE = {"subprocess", "socket", "signal", "threading", "multiprocessing", "sqlite3", "tempfile"}
"""Modules with which a test reaches out of the interpreter, or into another thread or process."""

SERVERS = {"server", "serve", "provider_cases", "parrot", "postgres_server"}
"""Our modules and fixture that listen at a socket, or whose users do."""

MEETINGS = {
    *("agents", "cli", "distributed", "docs", "flow", "git", "house", "integration", "interop"),
    *("memory", "observability"),
}
"""Tests of what is made of several packages."""

SWEEPS = {
    *("faults", "fuzz", "test_chaos", "test_chaos_mutants", "test_crowds"),
    *("test_cases", "test_everyday", "test_linear", "test_scopes", "test_second_round"),
    *("test_traced", "test_vendors"),
}
"""Folders and modules of tests that try very many programs, cases, faults or mutants."""

EXAMPLES = int(os.environ.get("GREENROOM_EXAMPLES", "10"))
"""Of each property; a run with fewer than 100 is a quick one, as a run is without this."""

KINDS = ("unit", "integration", "e2e")

IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import\b|import[ \t]+([^#\n]+))", re.MULTILINE
)


ARMED = pytest.StashKey[float]()
"""When the stacks were last put off."""


def few(count):
    """Return this count; in a quick run, a third of it."""
    return max(4, count // 3) if EXAMPLES < 100 else count


def take_sample(cases, step):
    """Return every case; in a quick run, every one after so many."""
    return cases[::step] if EXAMPLES < 100 else cases


def pytest_configure(config):
    """Try the same examples in every run and on every machine, unless there is a seed."""
    config.addinivalue_line(
        "markers", "in_turns(name): in a quick run, one value of this parameter"
    )
    config.addinivalue_line("markers", "every(n): in a quick run, every n-th case of this test")
    config.addinivalue_line("markers", "checkpoint(name): what a stage of the framework has to do")
    config.addinivalue_line("markers", "unit: one package, no file, process, socket or thread")
    config.addinivalue_line("markers", "integration: with files, processes, sockets, or packages")
    config.addinivalue_line("markers", "e2e: the program, an example or a page, as a user runs it")
    settings.register_profile(
        "greenroom",
        max_examples=EXAMPLES,
        derandomize=config.getoption("--hypothesis-seed") is None,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        print_blob=True,
    )
    settings.load_profile("greenroom")


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory):
    """Run one PostgreSQL server for all tests of this process; each takes a schema of its own.

    Nothing that they write, nor the server, holds the password.
    """
    from tests import postgres_server

    if postgres_server.programs() is None:
        pytest.skip("PostgreSQL (Debian's package postgresql) is not installed")
    written = tmp_path_factory.getbasetemp()
    is_worker = "PYTEST_XDIST_WORKER" in os.environ
    server = postgres_server.PostgresServer((written.parent if is_worker else written) / "postgres")
    yield server
    places = [written, server.folder / "log"]
    found = subprocess.run(
        ["grep", "-rlF", postgres_server.PASSWORD, *places],
        capture_output=True,
        text=True,
        check=False,
    )
    server.stop()
    assert (found.returncode, found.stdout) == (1, "")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Fail a test that printed or logged the password of a server."""
    report = yield
    if report.passed and "postgres_server" in getattr(item, "fixturenames", ()):
        from tests.postgres_server import PASSWORD

        if any(PASSWORD in text for _, text in report.sections):
            report.outcome, report.longrepr = "failed", "it printed or logged the password"
    return report


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session):
    """Spare the collector thousands of modules and tests, which stay: they take half its time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_addoption(parser):
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run the tests in a random order")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark each test by its kind where that is asked for; leave out slow ones, and shuffle."""
    if config.getoption("-m"):
        for item in items:
            if not any(map(item.get_closest_marker, KINDS)):
                item.add_marker(find_kind(item.path, {*getattr(item, "fixturenames", ())}))
    if EXAMPLES < 100:
        leave_out_crossed(config, items)
        leave_out_most(config, items)
    if (seed := config.getoption("--shuffle")) is not None:
        shuffle(items, random.Random(seed))


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Look for examples in docstrings of the package alone: tests have none."""
    collectors = yield
    return [each for each in collectors if not isinstance(each, DoctestModule)]


def pytest_ignore_collect(collection_path, config):
    """Do not even import what has no unit tests where only those are wanted; None is no opinion."""
    is_left_out = config.getoption("-m") == "unit" and collection_path.suffix == ".py"
    return (is_left_out and find_kind(collection_path) != "unit") or None


def find_kind(path, fixtures=frozenset()):
    """Return the kind of tests: of a unit, of several with files and processes, of the program."""
    folders = path.relative_to(HERE).parts if path.is_relative_to(HERE) else ("",)
    if folders[0] in {"e2e", "examples"} or fixtures & {"start", "terminal"}:
        return "e2e"
    is_wide = folders[0] in MEETINGS or SWEEPS & {*folders, path.stem}
    if is_wide and folders[0] not in {"cli", "docs"}:
        return "integration"  # without reading the module, which takes most of the time
    imported = find_imports(path)
    if folders[0] in {"cli", "docs"} and imported & PROGRAM:
        return "e2e"
    if is_wide or imported & (OUTSIDE | SERVERS | PROGRAM) or fixtures & (SERVERS | {"tmp_path"}):
        return "integration"
    return "unit"


@cache
def find_imports(path):
    """Return the last parts of the names of the modules that a test module imports.

    Lines are looked at, and not the tree of the syntax: that would take a fifth of a quick run.
    """
    lines = IMPORT.findall(path.read_text()) if path.suffix == ".py" else []
    names = (name for taken, plain in lines for name in [taken, *plain.split(",")] if name.strip())
    return {name.split()[0].rpartition(".")[2] for name in names}


def shuffle(items, order):
    """Bring the modules into a random order, and in each of them its tests."""
    modules = defaultdict(list)
    for item in items:
        modules[item.path].append(item)
    groups = list(modules.values())
    order.shuffle(groups)
    for group in groups:
        order.shuffle(group)
    items[:] = [item for group in groups for item in group]


def leave_out_crossed(config, items):
    """Leave out most of what is crossed: the values of that parameter take turns."""
    crossed = defaultdict(list)
    for item in items:
        if mark := item.get_closest_marker("in_turns"):
            others = {k: v for k, v in item.callspec.params.items() if k != mark.args[0]}
            crossed[item.function, repr(others)].append(item)
    taken = {group[turn % len(group)] for turn, group in enumerate(crossed.values())}
    leave_out(config, items, {item for group in crossed.values() for item in group} - taken)


def leave_out_most(config, items):
    """Leave out most cases of long tables: those taken are spread over the whole table."""
    tables = defaultdict(list)
    for item in items:
        if mark := item.get_closest_marker("every"):
            tables[item.function, *mark.args].append(item)
    taken = {item for (_, step), table in tables.items() for item in table[::step]}
    leave_out(config, items, {item for table in tables.values() for item in table} - taken)


def leave_out(config, items, left_out):
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """In a quick run, show where a test stands that goes on for two minutes.

    To put that off ends a thread, for which most tests would wait longer than they take: so it is
    done twice a minute, where pytest does it for each test.
    """
    now, stash = time.monotonic(), item.config.stash
    if EXAMPLES < 100 and now - stash.get(ARMED, 0) > 30:
        stash[ARMED] = now
        faulthandler.dump_traceback_later(120, file=stash[fault_handler_stderr_fd_key])


def pytest_sessionfinish():
    faulthandler.cancel_dump_traceback_later()


def pytest_itemcollected(item):
    """Let each report of a test say which checkpoint it proves, on whichever worker it runs."""
    for mark in item.iter_markers("checkpoint"):
        item.user_properties.append(("checkpoint", *mark.args))


def pytest_terminal_summary(terminalreporter, config):
    """After `pytest -m checkpoint`, tell of each checkpoint whether it is passed."""
    if config.getoption("-m") != "checkpoint":
        return
    failed = {}
    for outcome in ("passed", "failed", "error", "skipped"):
        for report in terminalreporter.getreports(outcome):
            for kind, name in getattr(report, "user_properties", ()):
                if kind == "checkpoint":
                    failed[name] = failed.get(name, False) or outcome != "passed"
    for name, has_failed in sorted(failed.items()):
        terminalreporter.write_line(f"{'FAIL' if has_failed else 'PASS'} {name}")


@pytest.fixture(autouse=True, scope="session")
def a_user_of_their_own(tmp_path_factory):
    """Give the tests a home folder, and take settings of the developer's away."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.upper().startswith((*OURS, *PROXIES)) or name.endswith("_API_KEY"):
                patch.delenv(name)
        patch.setenv("HOME", str(home))
        for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME"):
            patch.delenv(name, raising=False)
        yield


@pytest.fixture(autouse=True, scope="session")
def heed_signals():
    """Let what tests start heed Ctrl-C and Ctrl-\\: a shell starts its background jobs without."""
    handlers = {signal.SIGINT: signal.default_int_handler, signal.SIGQUIT: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
