"""What a model accepts in a request, and requests made to fit that.

Each generation of models refuses settings that the one before it took: a budget for thinking, a
temperature, a forced call. `RequestRules` has these facts; the catalogue says which model has
which. `fit_request` turns a request in our own words into one that the model takes, just before it
is written. Where something else would do, it is replaced, such as an effort by the nearest one;
where nothing would, the request is refused with a hint, before it is sent.
"""

from dataclasses import replace
from typing import Literal, NamedTuple, TypeAlias, get_args

import msgspec
from msgspec import structs

from greenroom.core import (
    ContentBlock,
    Message,
    ModelRequest,
    RedactedThinkingBlock,
    StopReason,
    TextBlock,
    ThinkingBlock,
)
from greenroom.core._internal import Effort, NamedTool, Thinking, compile_later
from greenroom.llm.model_errors import ModelBadRequestError

When: TypeAlias = Literal["always", "without thinking", "never"]
"""When a model accepts something."""

EFFORTS: tuple[Effort, ...] = get_args(Effort)

_BUDGETS: dict[Effort, int] = {
    "none": 0,
    "low": 2_048,
    "medium": 8_192,
    "high": 16_384,
    "xhigh": 32_768,
    "max": 40_960,
}
"""The tokens that stand for each effort with models that take a budget."""

_REPLY = 16_000  # tokens that are left for the reply where a request has no limit


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    """How many tokens a model can be given to think for.

    Attributes:
        least: the fewest, besides 0.
        most: the most, if there is a number.
        is_below_limit: whether the limit of the reply must be larger.
        has_none: whether 0 turns thinking off.
        precede_calls: whether thinking must have come before the calls that a request answers.
    """

    least: int
    most: int | None = None
    is_below_limit: bool = False
    has_none: bool = True
    precede_calls: bool = False


class RequestRules(msgspec.Struct, frozen=True, kw_only=True):
    """What a model accepts in a request. Where a fact is not known, a request is sent as it is.

    Attributes:
        efforts: the efforts that it has, the least first; empty if it takes none, None if that is
            not known.
        default_effort: how hard it thinks unless a request says so; None if that is not known.
        budget: which numbers of tokens to think for it takes; None if it takes no number.
        is_adaptive: whether it is told, besides an effort, to think as it sees fit.
        off: the `thinking` that turns thinking off where no effort does; None if nothing does.
        sampling: when it takes a temperature or a nucleus other than its default.
        forced_tools: when a request may force a call.
        chat_tools: when a request over Chat Completions may have tools.
        binds_thinking: whether its API refuses thinking if anything before it has changed.
        takes_last_reply: whether the last message may be the assistant's, to be continued.

    Example:
        >>> rules = RequestRules(efforts=("low", "high"), default_effort="high")
        >>> rules.find_effort("medium"), rules.find_effort("none"), rules.find_effort("max")
        ('low', 'low', 'high')
    """

    efforts: tuple[Effort, ...] | None = None
    default_effort: Effort | None = None
    budget: Budgets | None = None
    is_adaptive: bool = False
    off: Thinking | None = None
    sampling: When = "always"
    forced_tools: When = "always"
    chat_tools: When = "always"
    binds_thinking: bool = False
    takes_last_reply: bool = True

    def over_responses(self) -> "RequestRules":
        """Return the rules of the same model over OpenAI's Responses API, which takes more."""
        efforts = self.efforts
        if efforts and efforts[-1] == "xhigh" and self.default_effort == "medium":
            efforts = (*efforts, "max")
        return structs.replace(self, chat_tools="always", efforts=efforts)

    def find_effort(self, wanted: Effort) -> Effort:
        """Return the nearest effort that the model has, a lesser one if it can be."""
        if not self.efforts:
            return wanted
        most = EFFORTS.index(wanted)
        return [self.efforts[0], *(e for e in self.efforts if EFFORTS.index(e) <= most)][-1]


UNKNOWN_RULES = RequestRules()
"""The rules of a model of which nothing is known."""


def find_effort_of(thinking: Thinking) -> Effort:
    """Return the effort that comes nearest to a way of thinking.

    Example:
        >>> [find_effort_of(each) for each in (0, 2_000, 8_000, 30_000, "adaptive")]
        ['none', 'low', 'medium', 'high', 'medium']
    """
    if isinstance(thinking, str):
        return "none" if thinking == "between_tools" else "medium"
    steps: tuple[Effort, ...] = ("none", "low", "medium")
    return next((each for each in steps if thinking <= _BUDGETS[each]), "high")


def is_same_model(one: str, other: str) -> bool:
    """Whether two names may mean one Claude model, such as a snapshot or a name in a cloud.

    Example:
        >>> is_same_model("claude-haiku-4-5", "us.anthropic.claude-haiku-4-5-20251001-v1:0")
        True
        >>> is_same_model("claude-haiku-4-5", "anthropic/claude-haiku-4.5")
        True
        >>> is_same_model("claude-haiku-4-5", "claude-sonnet-4-5"), is_same_model("", "claude-5")
        (False, True)
    """
    found = [_CLAUDE.search(name.replace(".", "-")) for name in (one, other)]
    return not all(found) or len({each and each[0] for each in found}) == 1


_CLAUDE = compile_later(r"claude-[a-z]+-\d+(?:-\d{1,2}(?!\d))?|claude-\d[\d-]*-[a-z]+")


class FittedRequest(NamedTuple):
    """A request that a model accepts.

    Attributes:
        request: the request.
        changes: what was changed that the caller asked for, a sentence each.
    """

    request: ModelRequest
    changes: tuple[str, ...] = ()


def fit_request(
    request: ModelRequest, rules: RequestRules, *, name: str, max_output: int | None = None
) -> FittedRequest:
    """Return a request that a model accepts, as near to this one as can be.

    The request's `options` are the caller's own business, and stay as they are.

    Args:
        request: the request.
        rules: what the model accepts.
        name: the model's full name, for errors.
        max_output: the most tokens of a reply, if that is known.

    Raises:
        ModelBadRequestError: the model would refuse it, and nothing else would do.

    Example:
        >>> from greenroom.core import Message
        >>> rules = RequestRules(efforts=("low", "medium"), default_effort="medium")
        >>> request = ModelRequest(messages=[Message.user("hi")], effort="max")
        >>> fit_request(request, rules, name="acme:one").request.effort
        'medium'
    """
    changes = list[str]()
    if max_output is not None and (request.max_tokens or 0) > max_output:
        changes.append(f"max_tokens is {max_output}, the most that {name} has")
        request = replace(request, max_tokens=max_output)
    request = _fit_thinking(request, rules, name, max_output)
    if request.tools and rules.chat_tools == "without thinking" and _thinks(request, rules):
        if request.effort is not None:
            changes.append(
                f"{name} takes tools over Chat Completions only without thinking: it does not think"
            )
        request = replace(request, effort="none", thinking=None)
    _check(request, rules, name)
    return FittedRequest(request, tuple(changes))


def may_force(request: ModelRequest, rules: RequestRules) -> bool:
    """Whether a model lets this request force a call; an unknown one, unless it thinks."""
    when = "without thinking" if rules is UNKNOWN_RULES else rules.forced_tools
    return _holds(when, request, rules)


def _fit_thinking(
    request: ModelRequest, rules: RequestRules, name: str, max_output: int | None
) -> ModelRequest:
    effort, thinking = request.effort, request.thinking
    if (effort is None and thinking is None) or rules.efforts is None:
        return request
    wanted = effort or find_effort_of(thinking or 0)
    if rules.budget is not None:
        is_number = effort is None and isinstance(thinking, int)
        budget = int(thinking or 0) if is_number else _BUDGETS[wanted]
        fitted = _fit_budget(request, rules.budget, budget, name, max_output)
        return replace(request, effort=None, thinking=fitted)
    if not rules.efforts:  # it does not think, or in its own way
        return replace(request, effort=None, thinking=None)
    if wanted == "none" and rules.off is not None:
        return replace(request, effort=None, thinking=rules.off)
    found = rules.find_effort(wanted)
    if wanted == "none" != found and request.max_tokens is not None:  # it thinks all the same
        most = request.max_tokens + _BUDGETS[found]
        request = replace(request, max_tokens=min(most, max_output or most))
    return replace(request, effort=found, thinking="adaptive" if rules.is_adaptive else None)


def _fit_budget(
    request: ModelRequest, rules: Budgets, budget: int, name: str, max_output: int | None
) -> int | None:
    """Return the nearest budget that the model takes; None if it can't think."""
    if not budget and rules.has_none:
        return 0
    if rules.precede_calls and _lacks_thinking(request, name):
        return None
    most = rules.most
    if rules.is_below_limit:
        spare = None if max_output is None else max_output - _REPLY
        limit = spare if request.max_tokens is None else request.max_tokens
        most = None if limit is None else limit - 1
    if most is not None and most < rules.least:
        return None
    return max(rules.least, budget if most is None else min(budget, most))


def _lacks_thinking(request: ModelRequest, name: str) -> bool:
    """Whether the calls that are being answered were made without thinking.

    Models with a budget demand that thinking precedes the calls, and can't begin it midway. What
    is said after the results, such as the next input after an interrupt, is one message with them.
    """
    has_results = False
    for each in reversed(request.messages):
        if each.role == "user":
            has_results = has_results or bool(each.tool_results)
        elif has_results or any(map(_is_said, each.content)):
            return has_results and not _begins_with_thinking(each, name)
    return False


def _is_said(block: ContentBlock) -> bool:
    """Whether a block is not just thinking, which is not sent if a reply has nothing else."""
    if isinstance(block, TextBlock):
        return bool(block.text.strip())
    return not isinstance(block, ThinkingBlock | RedactedThinkingBlock)


def _begins_with_thinking(reply: Message, name: str) -> bool:
    """Whether a reply begins with thinking that the model will take back."""
    provider, _, model = name.partition(":")
    is_own = reply.provider in ("", provider) and is_same_model(reply.model, model)
    first = next(iter(reply.content), None)
    is_signed = isinstance(first, ThinkingBlock) and bool(first.signature)
    return is_own and (is_signed or isinstance(first, RedactedThinkingBlock))


def _thinks(request: ModelRequest, rules: RequestRules) -> bool:
    """Whether the model will think about this request, as far as that is known."""
    if request.effort is None and request.thinking is None:
        return rules.default_effort not in (None, "none")
    return request.effort not in (None, "none") or request.thinking not in (None, 0)


def _holds(when: When, request: ModelRequest, rules: RequestRules) -> bool:
    return when == "always" or (when == "without thinking" and not _thinks(request, rules))


def _check(request: ModelRequest, rules: RequestRules, name: str) -> None:
    """Refuse what nothing can replace.

    Raises:
        ModelBadRequestError: the model would refuse the request.
    """
    if request.tools and rules.chat_tools == "never":
        hint = "use OpenAIResponsesProvider, or open_model, which chooses the API"
        raise _refusal(name, "takes no tools over Chat Completions", hint)
    if (fields := _list_sampling(request)) and not _holds(rules.sampling, request, rules):
        hint = f"leave out {' and '.join(fields)}"
        raise _refusal(name, f"takes no {fields[0]}", hint, rules.sampling)
    if _forces_call(request) and not _holds(rules.forced_tools, request, rules):
        hint = "leave out tool_choice, and say in the prompt which tool is meant"
        raise _refusal(name, "can't be made to call a tool", hint, rules.forced_tools)
    if _ends_with_reply(request) and not rules.takes_last_reply:
        raise _refusal(name, "does not continue a reply", "end with a message of the user's")


def _list_sampling(request: ModelRequest) -> list[str]:
    """List the settings of the sampling that are not the default of every model."""
    values = (("temperature", request.temperature), ("top_p", request.top_p))
    return [field for field, value in values if value not in (None, 1)]


def _forces_call(request: ModelRequest) -> bool:
    choice = request.tool_choice
    return bool(request.tools) and (choice == "any" or isinstance(choice, NamedTool))


def _ends_with_reply(request: ModelRequest) -> bool:
    """Whether the last message is the assistant's; one that paused goes back as it came."""
    last = next(iter(request.messages[-1:]), None)
    if last is None or last.role != "assistant":
        return False
    return last.stop_reason is not StopReason.PAUSE


def _refusal(name: str, problem: str, hint: str, when: When = "never") -> ModelBadRequestError:
    if when == "without thinking":
        problem, hint = f"{problem} while it thinks", f'{hint}, or set effort="none"'
    return ModelBadRequestError(f"{name} {problem}", provider=name.partition(":")[0], hint=hint)
