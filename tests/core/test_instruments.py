"""Instruments alone: who is told, who is refused, and what becomes of a hook that raises."""

import inspect
import logging
from typing import get_args

import pytest

from greenroom.core import AgentContext, ConfigurationError, Instrument, ToolUseBlock
from greenroom.core._internal import Hook, Instruments

ANN = AgentContext(session_id="s-1", agent_type="coder", lineage=("root", "Ann"))
CALL = ToolUseBlock("1", "Read", {"path": "a", "flags": [1]})


class Recorder:
    def __init__(self, name=""):
        self.name, self.told = name, []

    def before_turn(self, agent, message):
        self.told.append((agent.session_id, message))


def test_the_names_of_the_hooks_are_those_that_are_documented():
    documented = {name for name in vars(Instrument) if not name.startswith("_")}
    assert documented == set(get_args(Hook))
    assert all(inspect.getdoc(getattr(Instrument, name)) for name in documented)


def test_an_instrument_has_only_the_hooks_that_it_wants():
    recorder = Recorder()
    instruments = Instruments([recorder])
    instruments.notify("before_turn", ANN, "hello")
    instruments.notify("after_turn", ANN, "bye")
    assert recorder.told == [(ANN.session_id, "hello")]


def test_a_hook_that_is_inherited_and_does_nothing_is_not_called():
    class Derived(Instrument):
        def after_turn(self, agent, end):
            pass

    instruments = Instruments([Derived()])
    assert len(instruments.methods["after_turn"]) == 1
    assert not any(instruments.methods[hook] for hook in get_args(Hook) if hook != "after_turn")


def test_they_are_told_in_the_order_in_which_they_came_until_they_are_removed():
    heard = []

    class Voice:
        def __init__(self, name):
            self.name = name

        def before_turn(self, agent, message):
            heard.append(self.name)

    one, two = Voice("one"), Voice("two")
    instruments = Instruments([one])
    instruments.add(two)
    instruments.add(one)  # it is there already
    instruments.notify("before_turn", ANN, "")
    instruments.remove(one)
    instruments.notify("before_turn", ANN, "")
    assert heard == ["one", "two", "two"]
    assert instruments.statistics().attached == ("Voice",)


def test_a_hook_may_remove_itself():
    class Once:
        def __init__(self):
            self.count = 0

        def before_turn(self, agent, message):
            self.count += 1
            instruments.remove(self)

    once, recorder = Once(), Recorder()
    instruments = Instruments([once, recorder])
    for _ in range(2):
        instruments.notify("before_turn", ANN, "")
    assert (once.count, len(recorder.told)) == (1, 2)
    with pytest.raises(ConfigurationError, match="Once is not attached"):
        instruments.remove(once)


class Nothing:
    pass


class Misspelt:
    def before_toolcall(self, agent, call):
        pass


class Waiting:
    async def before_turn(self, agent, message):
        pass


@pytest.mark.parametrize(
    ("instrument", "reason"),
    [
        (Nothing(), r"Nothing has no hook \(what takes spans goes into a Tracer"),
        (Instrument(), "Instrument has no hook"),
        (Misspelt(), "Misspelt has before_toolcall, which is not the name of a hook"),
        (Waiting(), "Waiting.before_turn is async, and hooks can't wait"),
        (Recorder, "Recorder is a class, not an instrument"),
    ],
)
def test_what_can_t_be_an_instrument_is_refused(instrument, reason):
    with pytest.raises(ConfigurationError, match=reason):
        Instruments([instrument])


def test_what_is_called_like_a_hook_and_is_data_does_no_harm():
    class Clock(Recorder):
        after_hours = 18

    assert Instruments([Clock()]).statistics().attached == ("Clock",)


class Broken:
    def before_turn(self, agent, message):
        raise KeyError(message)

    def before_tool_call(self, agent, call):
        call.input["path"] = "changed in place"
        raise ValueError("no")


def test_a_hook_that_raises_is_logged_and_counted_and_stops_no_other(caplog):
    recorder = Recorder()
    instruments = Instruments([Broken(), recorder])
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            instruments.notify("before_turn", ANN, "hello")
    assert len(recorder.told) == 3
    assert instruments.statistics().failures == {"Broken.before_turn": 3}
    texts = [record.getMessage() for record in caplog.records]
    assert texts == ["root/Ann: the hook Broken.before_turn raised KeyError: 'hello'"] * 3
    # The traceback once: a hook that always fails must not flood the log.
    assert [bool(record.exc_info) for record in caplog.records] == [True, False, False]


def test_a_keyboard_interrupt_in_a_hook_goes_on():
    class Pressed:
        def before_turn(self, agent, message):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Instruments([Pressed()]).notify("before_turn", ANN, "")


class Rewriter:
    def __init__(self, function):
        self.function = function

    def before_tool_call(self, agent, call):
        return self.function(call)


def test_each_rewrites_what_the_one_before_it_has_made():
    instruments = Instruments(
        [
            Rewriter(lambda call: {**call.input, "path": "b"}),
            Rewriter(lambda call: None),
            Rewriter(lambda call: {**call.input, "path": call.input["path"] + "c"}),
        ]
    )
    assert instruments.before_tool_call(ANN, CALL).input == {"path": "bc", "flags": [1]}


def test_without_a_rewrite_the_call_is_the_very_same():
    same = Instruments([Rewriter(lambda call: call.input), Rewriter(lambda call: None)])
    assert same.before_tool_call(ANN, CALL) is CALL
    assert Instruments().before_tool_call(ANN, CALL) is CALL


def test_true_in_place_of_one_is_a_rewrite():
    instruments = Instruments([Rewriter(lambda call: {**call.input, "flags": [True]})])
    assert instruments.before_tool_call(ANN, CALL).input["flags"][0] is True


@pytest.mark.parametrize("bad", ["a text", ["a list"], {"path": {1, 2}}, {1: "a"}, {"a": object()}])
def test_what_is_no_input_is_a_failure_of_the_hook_and_changes_nothing(bad, caplog):
    instruments = Instruments([Rewriter(lambda call: bad)])
    assert instruments.before_tool_call(ANN, CALL) is CALL
    assert instruments.statistics().failures == {"Rewriter.before_tool_call": 1}


def test_a_call_can_t_be_changed_in_place_nor_later(caplog):
    kept = {"path": "b"}

    def keep(call):
        with pytest.raises(TypeError, match="frozen"):
            call.input["flags"].append(2)
        return kept

    instruments = Instruments([Broken(), Rewriter(keep)])
    call = instruments.before_tool_call(ANN, CALL)
    kept["path"] = "c"
    assert CALL.input == {"path": "a", "flags": [1]}
    assert call.input == {"path": "b"}


def test_a_call_that_could_not_be_read_can_be_repaired():
    broken = ToolUseBlock("1", "Read", invalid="no JSON", raw_input='{"path": "a"')
    instruments = Instruments([Rewriter(lambda call: {"path": call.raw_input[10:11]})])
    call = instruments.before_tool_call(ANN, broken)
    assert (call.input, call.invalid, call.raw_input) == ({"path": "a"}, "", "")
