"""`escalate`: a question that nobody answers goes to the next person, and then has a default."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias

import trio

from greenroom.agents._internal import Decide, as_answer
from greenroom.core import Answer, ConfigurationError, PermissionRequest, RuleDecision

Notify: TypeAlias = Callable[[PermissionRequest], Awaitable[object]]
"""Tells somebody that a question waits."""

_NOBODY = Answer(RuleDecision.DENY, message="nobody answered in time", by="default")


def escalate(
    *people: Decide,
    after: float,
    default: bool | Answer = _NOBODY,
    on_wait: Notify | None = None,
) -> Decide:
    """Return a function for `approve=` that asks people in turn until one answers.

    Args:
        *people: async functions of the request, as for `approve=`, in the order of asking.
        after: seconds that each has; then their function is cancelled, and the next one is asked.
        default: the answer if nobody has answered; by default a denial that says so.
        on_wait: called first, such as to send a mail; nobody is asked before it returns, and its
            time counts as the first one's.

    Raises:
        ConfigurationError: there are no people, or `after` is not above 0.

    Example:
        ```python
        approve = escalate(ask_ada, ask_the_board, after=3600, on_wait=send_mail)
        result = await planner.run("Book a trip", approve=approve)
        ```
    """
    if not people or not after > 0:
        raise ConfigurationError("escalate needs people to ask, and more than 0 seconds for each")

    async def decide(request: PermissionRequest) -> bool | Answer:
        for number, ask in enumerate(people):
            with trio.move_on_after(after):
                if number == 0 and on_wait is not None:
                    await on_wait(request)
                return as_answer(await ask(request))
        return default

    return decide
