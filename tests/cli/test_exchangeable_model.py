"""A model that is exchanged while the conversation goes on."""

import trio

from greenroom.cli.exchangeable_model import ExchangeableModel
from greenroom.cli.options import Options
from greenroom.cli.run_setup import open_setup
from greenroom.core import Message, ModelRequest
from greenroom.llm import OfflineProvider, ProviderWrapper

REQUEST = ModelRequest(messages=[Message.user("help")])


class Noted(ProviderWrapper):
    """A model that keeps the requests that it gets."""

    def __init__(self, name):
        super().__init__(OfflineProvider())
        self.requests = []
        self.is_closed = False
        self.own_name = name

    @property
    def model(self):
        return self.own_name

    def stream(self, request):
        self.requests.append(request)
        return self.llm.stream(request)

    async def aclose(self):
        self.is_closed = True


async def test_the_next_request_goes_to_the_other_model_and_one_under_way_stays():
    first, second = Noted("one"), Noted("two")
    model = ExchangeableModel(first)
    async with model.stream(REQUEST) as events:
        model.exchange(second)
        assert [event async for event in events]
    assert model.model == "two"
    await model.generate(REQUEST)
    assert (len(first.requests), len(second.requests)) == (1, 1)
    await model.aclose()
    assert first.is_closed
    assert second.is_closed


async def test_a_run_closes_the_models_that_it_took_in_place_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    one, two = Noted("one"), Noted("two")
    async with open_setup(Options(sessions=str(tmp_path / "sessions"))) as setup:
        setup.model.exchange(one)
        setup.model.exchange(two)
    assert one.is_closed
    assert two.is_closed


async def test_the_effort_counts_where_a_request_does_not_say():
    inside = Noted("one")
    model = ExchangeableModel(inside)
    await model.generate(REQUEST)
    model.effort = "high"
    await model.generate(REQUEST)
    await model.generate(ModelRequest(messages=REQUEST.messages, effort="none"))
    assert [each.effort for each in inside.requests] == [None, "high", "none"]


def test_exchanging_a_model_for_itself_keeps_it_open_once():
    inside = Noted("one")
    model = ExchangeableModel(inside)
    model.exchange(inside)
    trio.run(model.aclose)
    assert model.llm is inside
