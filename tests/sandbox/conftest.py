"""Every way to hold commands that works here, and a workspace with something outside of it."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from greenroom.core import AgentContext, Workspace
from greenroom.sandbox import detection
from greenroom.sandbox.detection import list_candidates
from greenroom.sandbox.report import Mechanisms
from tests.sandbox.held import Held, in_turns, skip_where_refused

examined: dict[str, list[Mechanisms]] = {}


@pytest.fixture
def outside() -> Iterator[Path]:
    """A folder that no private one covers."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        (Path(folder) / "file").write_text("kept")
        yield Path(folder)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return Path(os.path.realpath(folder))


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Leave one tier of this machine, and the last one, which always works."""

    def leave(tier: str) -> None:
        monkeypatch.setattr(detection, "_mechanisms", examined.setdefault(tier, []))
        ways = [way for way in list_candidates() if way.tier in (tier, "limits")]
        monkeypatch.setattr(detection, "list_candidates", lambda: iter(ways))

    return leave


@pytest.fixture
def bubblewrap() -> None:
    skip_where_refused("bubblewrap")


@pytest.fixture
def landlock() -> None:
    skip_where_refused("landlock")


@pytest.fixture(params=in_turns("held", "bubblewrap", "landlock", "limits"))
def held(
    request: pytest.FixtureRequest, only: Callable[[str], None], root: Path, outside: Path
) -> Held:
    skip_where_refused(request.param)
    only(request.param)
    context = AgentContext(session_id="s-1", agent_type="coder", workspace=Workspace(root))
    return Held(request.param, context, outside)
