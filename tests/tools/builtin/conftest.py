import os
from pathlib import Path

import pytest

from greenroom.core import AgentContext, Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return Path(os.path.realpath(folder))


@pytest.fixture
def context(root: Path) -> AgentContext:
    return AgentContext(session_id="s-1", agent_type="coder", workspace=Workspace(root))
