"""Helpers for your own tests; none needs pytest.

- `models`: a model that follows a script, vectors without a model, a switch that forbids calls of
  real models.
- `recorded_run`: a whole run of an agent in one call, scripted answers to its permission requests,
  a stream drawn as a line of letters.
- `virtual_time`: a clock that jumps over all waiting, but not over the work of threads.
- `cassettes`: HTTP exchanges, recorded and replayed; `concealment` takes the secrets out.
- `evaluation_runs`: an agent runs cases, and checks judge its results; `evaluation` holds those.
- `fuzz`: a cancel at every checkpoint of a tool or an agent.
- `providers` and `provider_server`: checks for a provider of your own.
- `replay`: a recorded session again, without its model and tools; `rerun`: where it goes another
  way, and such a session as a test file; `recording` and `traced_replies` are what both read.
- `session_stores` and `session_store_contents`: checks for a session store of your own.
- `memories`: checks for a memory of your own.
- `pytest_plugin`: fixtures, for test suites that ask for them.
"""

from greenroom.testing.cassettes import cassette
from greenroom.testing.evaluation import Case, Evaluation
from greenroom.testing.evaluation_runs import evaluate
from greenroom.testing.fuzz import Scenario, cancel_at_every_checkpoint
from greenroom.testing.memories import check_memory
from greenroom.testing.models import (
    HashEmbedder,
    Reply,
    ScriptedProvider,
    Step,
    call,
    forbid_model_calls,
)
from greenroom.testing.providers import check_provider
from greenroom.testing.recorded_run import ScriptedApprover, marbles, run_agent
from greenroom.testing.replay import replay
from greenroom.testing.rerun import Drift, drift, export_test
from greenroom.testing.session_store_contents import StoreUnderTest
from greenroom.testing.session_stores import check_session_store
from greenroom.testing.virtual_time import run_in_virtual_time

__all__ = [
    "Case",
    "Drift",
    "Evaluation",
    "HashEmbedder",
    "Reply",
    "Scenario",
    "ScriptedApprover",
    "ScriptedProvider",
    "Step",
    "StoreUnderTest",
    "call",
    "cancel_at_every_checkpoint",
    "cassette",
    "check_memory",
    "check_provider",
    "check_session_store",
    "drift",
    "evaluate",
    "export_test",
    "forbid_model_calls",
    "marbles",
    "replay",
    "run_agent",
    "run_in_virtual_time",
]
