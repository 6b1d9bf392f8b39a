"""Functions that another process can find, and those that it can't."""

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import trio

from greenroom.core import AgentContext, ToolError
from greenroom.sandbox._internal import Confinement
from greenroom.tools import ProcessLimits, ToolRegistry, tool
from greenroom.tools._internal import FunctionTool
from greenroom.tools.isolation import frame as function_reference
from greenroom.tools.isolation.frame import FunctionReference
from greenroom.tools.isolation.worker_pool import WorkerProcess
from tests.tools import crossing

SCRIPT = """
import sys

import trio

from greenroom.core import AgentContext
from greenroom.tools import ToolRegistry, tool

print("loaded as", __name__)


@tool(isolation="process")
def shout(text: str) -> str:
    return text.upper() + " " + sys.argv[-1]


async def main():
    context = AgentContext(session_id="s", agent_type="t", current_tool_use_id="t")
    context.on_progress = lambda _, text: print("progress:", text, end="")
    print((await ToolRegistry([shout]).execute("shout", {"text": "hi"}, context)).text)


"""
GUARDED = f"{SCRIPT}if __name__ == '__main__':\n    trio.run(main)\n"


def run(*command, cwd):
    return subprocess.run(
        [sys.executable, *command], cwd=cwd, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_function_of_a_module_is_found_by_its_name():
    reference = FunctionReference.of(crossing.plain, "double")
    assert reference == FunctionReference("tests.tools.crossing", "plain", file=crossing.__file__)
    assert reference.load() is crossing.plain


def load_by_path(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def pathless(tmp_path, monkeypatch):
    """A module in a file that no import finds, as test runners load theirs."""
    file = tmp_path / "some-folder" / "pathless.py"
    file.parent.mkdir()
    file.write_text(
        "from greenroom.tools import tool\n\n\n"
        "@tool(isolation='process')\n"
        "def whisper(text: str) -> str:\n    return text.lower()\n"
    )
    monkeypatch.setitem(sys.modules, "nowhere.pathless", None)  # put back at the end
    return load_by_path("nowhere.pathless", file)


async def test_a_function_of_a_module_that_no_import_finds_is_found_by_its_file(pathless):
    context = AgentContext(session_id="s", agent_type="t")
    with trio.fail_after(60):
        result = await ToolRegistry([pathless.whisper]).execute("whisper", {"text": "HI"}, context)
    assert result.text == "hi"


def test_its_file_is_loaded_once_and_a_file_that_fails_leaves_nothing(pathless, monkeypatch):
    reference = FunctionReference.of(pathless.whisper.__wrapped__, "whisper")
    monkeypatch.delitem(sys.modules, "nowhere.pathless")
    assert reference.load() is reference.load() is not pathless.whisper
    Path(pathless.__file__).write_text("import one_that_is_not_there")
    monkeypatch.delitem(sys.modules, "nowhere.pathless")
    with pytest.raises(ModuleNotFoundError, match="one_that_is_not_there"):
        reference.load()
    assert "nowhere.pathless" not in sys.modules


def test_a_module_that_lacks_one_of_its_own_imports_is_not_loaded_by_its_file(
    tmp_path, monkeypatch
):
    (tmp_path / "lacking.py").write_text("import one_that_is_not_there")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="one_that_is_not_there"):
        FunctionReference("lacking", "f", file=str(tmp_path / "lacking.py")).load()


@pytest.mark.parametrize("function", [lambda: None, pytest.fail.__init__, [].append])
def test_what_has_no_name_of_its_own_is_refused(function):
    with pytest.raises(ToolError, match=r"another process can't find .* \(define the function"):
        FunctionReference.of(function, "nameless")


def test_a_local_function_is_refused_when_the_tool_is_made():
    with pytest.raises(ToolError, match=r"tool local: another process can't find .*<locals>.local"):

        @tool(isolation="process")
        def local() -> None:
            """Stand nowhere that can be imported."""


def test_an_async_function_is_refused():
    with pytest.raises(ToolError, match="an async function runs in this process"):

        @tool(isolation="process")
        async def fetch() -> None:
            """Be stopped by a cancel anyway."""


def test_limits_without_a_process_are_refused():
    with pytest.raises(ToolError, match="limits and a sandbox need a process of its own"):
        FunctionTool(crossing.plain, limits=ProcessLimits(cpu_seconds=1))


@pytest.mark.parametrize("name", ["file_megabytes", "processes"])
def test_limits_that_only_a_sandbox_holds_are_refused(name):
    with pytest.raises(ToolError, match=r"only a sandbox can limit files and processes .write san"):
        FunctionTool(crossing.plain, isolation="process", limits=ProcessLimits(**{name: 1}))


def test_an_unknown_isolation_is_refused():
    with pytest.raises(ToolError, match=r"isolation is 'container' .give 'thread' or 'process'"):
        tool(isolation="container")(crossing.plain)


def test_what_is_not_there_any_more_is_told():
    with pytest.raises(ToolError, match=r"loads tests.tools.crossing finds no gone.away"):
        FunctionReference("tests.tools.crossing", "gone.away").load()


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "program"
    path.write_text(GUARDED)
    return path


def test_a_function_of_the_script_is_found_as_multiprocessing_does_it(script, tmp_path):
    done = run("program", "argument", cwd=tmp_path)
    assert done.stderr == ""
    assert done.stdout.splitlines() == [
        "loaded as __main__",
        "progress: loaded as __mp_main__",
        "HI argument",
    ]


def test_a_function_of_a_module_that_is_run_is_found_under_its_own_name(script, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "module.py").write_text(GUARDED)
    done = run("-m", "package.module", cwd=tmp_path)
    assert done.stderr == ""
    assert done.stdout.splitlines()[1] == "progress: loaded as package.module"


def test_a_script_without_a_guard_is_refused(tmp_path):
    (tmp_path / "program.py").write_text(SCRIPT + "trio.run(main)\n")
    done = run("program.py", cwd=tmp_path)
    assert "another process that loads program.py would run all of it" in done.stderr
    assert 'put what starts the program under `if __name__ == "__main__":`' in done.stderr
    assert done.stdout == "loaded as __main__\n"


def test_a_script_that_runs_beside_its_guard_does_not_start_itself_again_and_again(tmp_path):
    (tmp_path / "program.py").write_text(
        f"{SCRIPT}trio.run(main)\nif __name__ == '__main__':\n    print('end')\n"
    )
    done = run("program.py", cwd=tmp_path)
    assert done.stdout.count("a tool was called while another process loads the script") == 1
    assert done.stdout.splitlines()[-1] == "end"


def test_an_interactive_function_is_refused(tmp_path):
    done = run("-c", SCRIPT, cwd=tmp_path)
    assert "another process can't find a function of an interactive session" in done.stderr


def test_a_script_is_loaded_once_and_is_the_main_module(script, monkeypatch):
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    # As `import multiprocessing` does it in a process that was started with -c.
    monkeypatch.setitem(sys.modules, "__mp_main__", sys.modules["__main__"])
    reference = FunctionReference("__main__", "shout", str(script))
    assert reference.load() is reference.load()
    assert sys.modules["__main__"] is sys.modules["__mp_main__"] is not sys.modules[__name__]


def test_a_script_that_fails_leaves_everything_as_it_was(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "__mp_main__", raising=False)
    path = tmp_path / "broken.py"
    path.write_text("1 / 0")
    main = sys.modules["__main__"]
    with pytest.raises(ZeroDivisionError):
        FunctionReference("__main__", "shout", str(path)).load()
    assert sys.modules["__main__"] is main
    assert "__mp_main__" not in sys.modules
    assert not function_reference.is_loading_script()


async def test_no_worker_starts_while_a_script_is_loaded(monkeypatch):
    monkeypatch.setattr(function_reference, "_loading", {"program.py"})
    with pytest.raises(ToolError, match="while another process loads the script"):
        await WorkerProcess.start(Confinement())


def test_the_function_itself_still_can_be_called():
    assert crossing.doubled(4) == 8
    context = AgentContext(session_id="s", agent_type="t")
    assert trio.run(crossing.point.execute, {"x": 1}, context).text == '{"x":1,"y":0}'
