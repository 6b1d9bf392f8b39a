"""Every block of code in the README and the docs runs, and prints what it says."""

import ast
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import greenroom
from tests.warm_python import run_warm

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.fixture
def project(tmp_path):
    """A folder to work in, with a README, and the sessions that the docs read."""
    (tmp_path / "README.md").write_text("# A project\n")
    shutil.copytree(ROOT / "sessions" / "example", tmp_path / "sessions" / "example")
    return tmp_path


def environment(folder):
    """The variables of somebody with nothing but Greenroom installed."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {"PATH": path, "HOME": str(folder / "home"), "LANG": "C.UTF-8"}


def run(*command, cwd):
    """Run a program as somebody with nothing but Greenroom installed."""
    return subprocess.run(
        command,
        cwd=cwd,
        env=environment(cwd),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def blocks(language):
    """Every fenced block of a language, named by its page and line."""
    for page in PAGES:
        text = page.read_text()
        for block in re.finditer(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            line = text.count("\n", 0, block.start()) + 1
            yield pytest.param(block[1], id=f"{page.relative_to(ROOT)}:{line}")


def programs():
    """Every block of Python, and every program in `examples/`."""
    yield from blocks("python")
    for path in sorted((ROOT / "examples").rglob("*.py")):
        yield pytest.param(path.read_text(), id=path.name)


@pytest.mark.parametrize("source", list(blocks("python")))
def test_python_runs_and_prints_what_it_says(source, project):
    # In a file, since other processes may have to load it.
    (project / "program.py").write_text(source)
    command = ["-W", "error", str(project / "program.py")]
    code, printed, errors = run_warm(command, project, environment(project))
    assert code == 0, errors
    assert printed.splitlines() == re.findall(r"^ *# > (.*)$", source, re.MULTILINE)


def test_python_names_no_package_that_only_another_import_may_have_loaded():
    # Where it runs here, all packages were imported before.
    found = {each.id: [*taken_from_packages(*each.values)] for each in programs()}
    assert {place: names for place, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import greenroom\ngreenroom.Agent, greenroom.testing.Scenario", ["greenroom.testing"]),
        ("import greenroom as gr\ngr.tools.Bash, gr.Message", ["gr.tools"]),
        ("import greenroom.testing", ["greenroom.testing"]),
        ("from greenroom import Agent, testing", ["testing"]),
        ("from greenroom.testing import ScriptedProvider\nimport trio.testing", []),
    ],
)
def test_a_package_that_is_named_is_noticed(source, found):
    assert list(taken_from_packages(source)) == found


def taken_from_packages(source):
    """Name our packages from which a program takes names without `from package import name`."""
    tree = ast.parse(source)
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            ours = [each for each in node.names if each.name.split(".")[0] == "greenroom"]
            names |= {each.asname or each.name for each in ours if each.name == "greenroom"}
            yield from (each.name for each in ours if each.name != "greenroom")
        elif isinstance(node, ast.ImportFrom) and node.module == "greenroom":
            yield from (each.name for each in node.names if each.name not in greenroom.__all__)
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(ast.Name(name), attribute) if name in names:
                if attribute not in greenroom.__all__:
                    yield f"{name}.{attribute}"


_ELSEWHERE = ("export OTEL_", "LANGFUSE_AUTH=", "export GREENROOM_DSN=")
"""What only sets variables: other tests use them, of trace backends and of PostgreSQL."""


def commands():
    """Every shell command, but those that install: the checks of the repository run them."""
    for block in blocks("sh"):
        for line in block.values[0].splitlines():
            if not any(each in line for each in ("pip install", "-m venv", *_ELSEWHERE)):
                yield line


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_commands_work(command, project):
    program, *words = shlex.split(command.replace(".venv/bin/", ""))
    if program == "greenroom" and "|" not in words:  # no shell is needed
        arguments = ["-m", program, *words]
        code, printed, errors = run_warm(arguments, project, environment(project))
    else:
        done = run("bash", "-euc", command.replace(".venv/bin/", ""), cwd=project)
        code, printed, errors = done.returncode, done.stdout, done.stderr
    assert code == 0, printed + errors
    assert printed


def test_what_installs_is_what_the_checks_of_the_repository_run():
    readme = (ROOT / "README.md").read_text()
    marked = "".join(re.findall(r"<!-- (?:try|tests) -->.*?<!-- /", readme, re.DOTALL))
    pages = [page.read_text() for page in (*PAGES, ROOT / "CONTRIBUTING.md")]
    lines = [line for page in pages for line in page.splitlines() if "pip install" in line]
    commands = [line for line in lines if line.startswith("python3")]
    assert len(commands) >= 4
    assert all(command in marked for command in commands)


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#\s]+)\)", prose):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"
