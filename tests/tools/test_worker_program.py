"""The program of a worker process: the parts that no call of a tool reaches by itself."""

import signal
import socket
import traceback

import pytest

from greenroom.core import ToolError
from greenroom.tools.isolation import worker_program
from greenroom.tools.isolation.frame import ProgressFrame


def test_it_ends_when_the_other_side_is_gone():
    ours, theirs = socket.socketpair()
    ours.close()
    with theirs:
        worker_program.CallServer(theirs).serve()


def test_a_process_that_was_forked_sends_nothing(monkeypatch):
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        connection = worker_program._Connection(theirs)
        monkeypatch.setattr(worker_program.os, "getpid", lambda: -1)
        connection.send(ProgressFrame("from a fork"))
        with pytest.raises(BlockingIOError):
            ours.recv(1)


def test_a_request_to_stop_is_remembered_where_the_function_does_not_let_it_pass():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        serving = worker_program.CallServer(theirs)
        with pytest.raises(SystemExit):
            serving._stop(signal.SIGTERM, None)
        serving.serve()  # it does not wait for another call


def test_what_can_t_be_shown_is_named(monkeypatch):
    def too_deep(_):
        raise RecursionError

    monkeypatch.setattr(traceback, "format_exception", too_deep)
    assert worker_program._traceback(ValueError()) == "ValueError, whose traceback can't be shown"
    assert worker_program._traceback(ToolError("known")) == ""


def test_files_that_are_closed_are_not_as_before(monkeypatch):
    before = worker_program._standard_files()
    assert before == worker_program._standard_files()
    monkeypatch.setattr(worker_program.sys, "__stdin__", None)
    assert before != worker_program._standard_files()
