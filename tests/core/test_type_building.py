"""What msgspec finds out about a type is built in one thread at a time.

It keeps what it knows of a class before it is complete. A second thread that decoded into that
class meanwhile followed a null pointer, which ended the process.
"""

import subprocess
import sys
import threading
from contextlib import contextmanager

import msgspec
import pytest

from greenroom.core._internal import serde
from tests.conftest import take_sample

_DECODE = """
from greenroom.core._internal import serde
from greenroom.session import entries
line = (
    b'{"kind":"message","message":{"role":"assistant","content":[{"type":"text","text":"a"},'
    b'{"type":"tool_use","id":"a","name":"b","input":{}}]}}'
)
def work():
    assert serde.decode(line, entries.Entry).message.content[0].text == "a"
"""
_CONVERT = """
from greenroom.core._internal import serde
from greenroom.flow.plan_run import PlanStep
step = {"type": "begin", "plan": {"goal": "", "subtasks": [{"id": "a", "goal": "b"}]}}
def work():
    assert serde.convert(step, PlanStep).plan["a"].goal == "b"
"""
_OUTPUT = """
from greenroom.core import Message
from greenroom.llm._internal import OutputType
def work():
    OutputType(Message)._decode(b'{"role":"user","content":[{"type":"text","text":"a"}]}', "")
"""
_STATE = """
import msgspec
from greenroom.core import Message
from greenroom.flow.workflow_state import StateSchema
class State(msgspec.Struct):
    messages: list[Message] = []
def work():
    StateSchema(State).begin({"messages": [Message.user("a")]})
"""
_RACE = """
import sys, threading
sys.setswitchinterval(1e-6)
begin = threading.Barrier(16)
failed = []
def run():
    begin.wait()
    try:
        work()
    except BaseException as error:
        failed.append(repr(error))
threads = [threading.Thread(target=run) for _ in range(16)]
for each in threads:
    each.start()
for each in threads:
    each.join()
sys.exit("\\n".join(failed[:3]) or 0)
"""


@pytest.mark.parametrize("program", [_DECODE, _CONVERT, _OUTPUT, _STATE])
@pytest.mark.every(2)
def test_many_threads_of_a_fresh_process_can_use_a_type_at_once(program):
    run = [sys.executable, "-c", program + _RACE]
    for _ in take_sample(range(4), 2):
        ended = subprocess.run(run, capture_output=True, text=True, check=False)
        assert (ended.stderr, ended.returncode) == ("", 0)


class _SharedLock:
    """The lock around building, which tells when a thread has to wait for it."""

    def __init__(self):
        self._lock = threading.RLock()
        self.contended = threading.Event()

    def __enter__(self):
        if not self._lock.acquire(blocking=False):
            self.contended.set()
            self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()


class _Annotations:
    """Annotations that run code when msgspec evaluates them, which is when it builds a type."""

    def __init__(self):
        self.begun = threading.Event()
        self.wait = threading.Event()
        self.order = []

    @property
    def slow(self):
        self.begun.set()
        assert self.wait.wait(60), "no other thread waited"
        self.order.append("slow")
        return int

    @property
    def other(self):
        self.order.append("other")
        return int


ANNOTATIONS = _Annotations()


@contextmanager
def _in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join()


_USES = [
    lambda kind: serde.decode(b'{"value":1}', kind),
    lambda kind: serde.convert({"value": 1}, kind),
    lambda kind: serde.make_decoder(kind).decode(b'{"value":1}'),
    serde.make_schema,
]


@pytest.mark.parametrize("first", _USES)
@pytest.mark.parametrize("second", _USES)
def test_a_thread_waits_while_another_builds_a_type(monkeypatch, first, second):
    lock, state = _SharedLock(), _Annotations()
    state.wait = lock.contended
    monkeypatch.setattr(serde, "_building", lock)
    monkeypatch.setitem(globals(), "ANNOTATIONS", state)
    slow = msgspec.defstruct("Slow", [("value", "ANNOTATIONS.slow")], module=__name__)
    other = msgspec.defstruct("Other", [("value", "ANNOTATIONS.other")], module=__name__)
    with _in_thread(lambda: first(slow)):
        assert state.begun.wait(60)
        second(other)
    assert state.order[0] == "slow"
    assert set(state.order[1:]) <= {"slow", "other"}


def test_a_type_that_is_known_waits_for_nobody(monkeypatch):
    known = msgspec.defstruct("Known", [("value", int)])
    serde.decode(b'{"value":1}', known)
    monkeypatch.setattr(serde, "_building", None)
    assert serde.decode(b'{"value":1}', known) == serde.convert({"value": 1}, known)
