"""Hard links: a hidden file that has another name is not held, and that is said."""

import os
from pathlib import Path

import pytest

from greenroom.core import Workspace
from greenroom.sandbox import resolved_policy as ground
from greenroom.sandbox._internal import SandboxUnavailableError
from greenroom.sandbox.resolved_policy import PolicyPaths
from greenroom.tools import Bash, Sandbox, examine_sandbox
from tests.sandbox.held import Held


@pytest.fixture
def secret(outside: Path) -> Path:
    """A file in a folder of which more will be hidden."""
    (outside / "hidden/below").mkdir(parents=True)
    path = outside / "hidden/below/secret"
    path.write_text("sesame")
    return path


@pytest.mark.parametrize("denied", ["hidden", "hidden/below/secret"])
async def test_a_hidden_file_with_another_name_is_not_held_and_nothing_runs_that_needs_it(
    held: Held, outside: Path, secret: Path, denied: str
) -> None:
    os.link(secret, held.root / "other")
    hiding = (str(outside / denied),)
    result = await held.run("cat other", Sandbox(deny_read=hiding))
    assert result.text.startswith("sesame")
    assert "hidden" in result.text.partition("NOT HELD")[2]
    report = await examine_sandbox(Sandbox(deny_read=hiding), held.context.workspace)
    assert "hidden" in report.lacking
    if held.tier != "limits":
        assert report.why["hidden"] == (
            f"{secret}: it can be read by another name that it has (a hard link)"
        )
    needing = Bash(sandbox=Sandbox(deny_read=hiding, require=frozenset({"hidden"})))
    with pytest.raises(SandboxUnavailableError, match="the sandbox must hold hidden"):
        await needing.execute({"command": "cat other"}, held.context)


async def test_names_that_are_all_hidden_are_held(held: Held, outside: Path, secret: Path) -> None:
    os.link(secret, secret.with_name("again"))
    sandbox = Sandbox(deny_read=(str(outside / "hidden"), str(secret)))
    report = await examine_sandbox(sandbox, held.context.workspace)
    assert ("hidden" in report.lacking) == (held.tier == "limits")


def test_a_name_in_a_workspace_below_something_hidden_is_another_one(secret: Path) -> None:
    workspace = secret.parents[1] / "workspace"
    workspace.mkdir()
    os.link(secret, workspace / "other")
    found = PolicyPaths.of(Sandbox(deny_read=(str(secret.parents[1]),)), Workspace(workspace))
    assert found.linked == (str(secret),)
    (workspace / "other").unlink()
    found = PolicyPaths.of(Sandbox(deny_read=(str(secret.parents[1]),)), Workspace(workspace))
    assert (found.linked, found.is_traced) == ((), True)


@pytest.mark.usefixtures("landlock")
async def test_what_is_looked_through_is_bounded_and_that_is_said(
    only: object, outside: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ground, "_MAX_HIDDEN", 10)
    for number in range(20):
        (outside / str(number)).touch()
    only("landlock")  # type: ignore[operator]
    report = await examine_sandbox(Sandbox(deny_read=(str(outside),)), Workspace(root))
    assert report.enforced["hidden"] == (
        "Landlock, but other names (hard links) were looked for among some of the files only"
    )
