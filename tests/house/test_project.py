"""The files that a forge, a contributor and a release read say the same as the project's own."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_forge_tests_every_python_that_is_promised():
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text()
    tested = set(re.findall(r'"(3\.\d+)"', workflow))
    promised = {
        each.rpartition(" ")[2] for each in PROJECT["classifiers"] if "Python :: 3." in each
    }
    assert promised <= tested
    assert "bash .ci/run" in workflow


def test_hooks_run_what_ci_runs():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    checks = re.findall(r"\.venv/bin/([\w-]+)", hooks)
    script = (ROOT / ".ci" / "run").read_text()
    assert checks
    assert [each for each in checks if f".venv/bin/{each}" not in script] == []


def test_a_release_uses_the_tools_of_its_extra():
    script = (ROOT / ".ci" / "release").read_text()
    programs = {"build": "-m build", "cyclonedx-bom": "bin/cyclonedx-py"}
    for requirement in PROJECT["optional-dependencies"]["release"]:
        name = requirement.partition("==")[0]
        assert programs.get(name, f"bin/{name}") in script


def test_the_page_of_dependencies_names_each():
    page = (ROOT / "docs" / "design" / "dependencies.md").read_text()
    for requirement in PROJECT["dependencies"]:
        name = re.split("[>=]", requirement)[0]
        assert re.search(rf"^\| {name} \|", page, re.MULTILINE), name
