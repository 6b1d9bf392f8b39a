"""Tools that fail: which calls are retried, which plans revised, which tools no longer called."""

from collections import Counter

from greenroom import ToolError
from greenroom.agents import resilient_tool
from greenroom.core import NetworkError
from greenroom.flow import Plan, PlanRun, Subtask
from greenroom.resilience import CircuitBreaker
from greenroom.resilience._internal import CircuitState
from greenroom.tools import as_tool
from tests.flow.planned import Planned


class Services:
    """One that fails twice and then works, one that will never do, and one that is down."""

    def __init__(self):
        self.calls = Counter()

    async def fetch(self) -> str:
        """Fetch a page."""
        self.calls["fetch"] += 1
        if self.calls["fetch"] < 3:
            raise NetworkError("no route")
        return "a page"

    async def parse(self, page: str) -> str:
        """Parse a page."""
        self.calls["parse"] += 1
        raise ToolError("this is no table")

    async def read(self, page: str) -> str:
        """Read a page."""
        return f"read {page}"

    async def post(self) -> str:
        """Post a note."""
        self.calls["post"] += 1
        raise NetworkError("the service is down")


class BySeverity:
    """Tries again what may pass, leaves what is refused, and has the rest planned anew."""

    def __init__(self):
        self.decided = set()

    async def recover(self, run, failure):
        if "was not run" in failure.error:
            decision = "give_up"
        else:
            decision = "retry" if "NetworkError" in failure.error else "replan"
        self.decided.add((failure.subtask.id, failure.failures, decision))
        return decision

    async def plan(self, goal, tools, context):
        raise AssertionError("there is a plan")

    async def revise(self, run, failure):
        self.decided.add((failure.subtask.id, "revised"))
        read = Subtask("read", "", after=["fetch"], tool="read", arguments={"page": "{fetch}"})
        return Plan("", [run.plan["fetch"], read])


async def test_each_failure_gets_what_helps_against_it(autojump_clock):
    services, recovery = Services(), BySeverity()
    breaker = CircuitBreaker("the service", failures=2, cooldown=3600)
    plan = Plan(
        "",
        [
            Subtask("fetch", "", tool="fetch"),
            Subtask("parse", "", after=["fetch"], tool="parse", arguments={"page": "{fetch}"}),
            Subtask("post", "", tool="post"),
        ],
    )
    tools = [services.fetch, services.parse, services.read]
    guarded = resilient_tool(as_tool(services.post), breaker=breaker)
    planned = Planned(plan, tools=[*tools, guarded], planner=recovery, recovery=recovery)
    assert (await planned.carry_out()).error == ""
    assert planned.run.results == {"fetch": "a page", "read": "read a page"}
    assert recovery.decided == {
        ("fetch", 1, "retry"),
        ("fetch", 2, "retry"),
        ("parse", 1, "replan"),
        ("parse", "revised"),
        ("post", 1, "retry"),
        ("post", 2, "retry"),
        ("post", 3, "give_up"),
    }
    assert services.calls == {"fetch": 3, "parse": 1, "post": 2}
    assert breaker.state is CircuitState.OPEN
    assert PlanRun.load(planned.session) == planned.run
