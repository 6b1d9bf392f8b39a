"""One era of the suite of the protocol's authors; `python -m tests.interop.conformance` runs both.

`GREENROOM_MCP_CONFORMANCE` is the folder in which npm has installed it, as that program says.
"""

import os
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="needs the extra mcp")

from tests.interop.conformance.__main__ import ERAS, SDK, Suite, running
from tests.interop.conformance.warm_client import warm_clients

FOLDER = os.environ.get("GREENROOM_MCP_CONFORMANCE", "")
ERA = ERAS[0]

pytestmark = pytest.mark.skipif(not FOLDER, reason="needs npm's suite of conformance; see above")


def test_our_server_does_what_an_era_requires(tmp_path):
    suite = Suite(Path(FOLDER))
    with running("our_server.py") as url:
        told = suite.run_all("server", ERA, tmp_path, "--url", url)
    ours = [each for each in suite.required("server", ERA) if not SDK.search(each)]
    assert [each for each in ours if f"\N{CHECK MARK} {each}: " in told] == ours
    assert len(ours) >= 15


def test_our_client_does_what_an_era_requires(tmp_path):
    suite = Suite(Path(FOLDER))
    with warm_clients(tmp_path) as command:
        told = suite.run_all("client", ERA, tmp_path, "--command", command)
    passed = [each for each in suite.required("client", ERA) if f"\N{CHECK MARK} {each}: " in told]
    assert passed == suite.required("client", ERA)
