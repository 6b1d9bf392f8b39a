"""The answers to a permission request that can be chosen, and what each of them decides."""

import msgspec

from greenroom.core import PermissionRequest, RuleDecision
from greenroom.core._internal import Remember

SUBMIT_PLAN, PLAN_OPTIONS = "SubmitPlan", ("approve", "approve, and accept edits")
"""The tool that puts a plan before the person, and the options of its requests.

`greenroom.agents` has them as well; most agents are shown without loading that.
"""


class Choice(msgspec.Struct, frozen=True):
    """One answer that can be chosen.

    Attributes:
        words: what may be typed for it; the first is its letter.
        label: what it means.
        decision: allow or deny.
        remember: how long it is remembered, or None for this call alone.
        message: the words of the answer, for a question that offers some.
        asks_why: whether a reason for the model is asked next.
        asks_what: whether the command to run instead is asked next.
        asks_value: whether the value of a credential is asked for next.
        asks_fields: whether what the request's fields ask for is next.
        asks_result: whether the result of a call that has run is asked for next.
        asks_plan: whether the plan is changed next.
        is_listed: whether the prompt lists it; the others are in the documentation.
    """

    words: tuple[str, ...]
    label: str
    decision: RuleDecision
    remember: Remember | None = None
    message: str = ""
    asks_why: bool = False
    asks_what: bool = False
    asks_value: bool = False
    asks_fields: bool = False
    asks_result: bool = False
    asks_plan: bool = False
    is_listed: bool = True

    @property
    def asks_more(self) -> bool:
        """Whether something is asked for next."""
        asks = (self.asks_why, self.asks_what, self.asks_value, self.asks_fields, self.asks_result)
        return any(asks) or self.asks_plan


_ALLOW, _DENY = RuleDecision.ALLOW, RuleDecision.DENY

CREDENTIAL_HIDDEN = "it stays in memory until this program ends, and is never shown"
CREDENTIAL_VISIBLE = (
    "what is typed here would be seen: run this in a terminal that is not a pipe and whose TERM is"
    " not dumb, or give it with handle.give_credential"
)
COMMAND_FIELD = "command"
"""The field of an input that can be changed in a line."""

CHOICES = (
    Choice(("y", "yes", "once"), "once", _ALLOW),
    Choice(("g", "give"), "give it, unseen", _ALLOW, asks_value=True),
    Choice(("f", "fill"), "fill in, as JSON", _ALLOW, asks_fields=True),
    Choice(("s", "session"), "session", _ALLOW, "session"),
    Choice(("p", "project"), "project", _ALLOW, "project"),
    Choice(("a", "always"), "always", _ALLOW, "always"),
    Choice(("d", "done", "ran"), "it ran", _DENY, asks_result=True),
    Choice(("n", "no"), "no", _DENY),
    Choice(("v", "never"), "never", _DENY, "always"),
    Choice(("never session",), "never in this session", _DENY, "session", is_listed=False),
    Choice(("never project",), "never in this project", _DENY, "project", is_listed=False),
    Choice(("w", "why"), "no, and why", _DENY, asks_why=True),
    Choice(("e", "edit"), "edit", _ALLOW, asks_what=True),
)
"""Every choice about a call; none is bound to Enter or a blank alone."""

PLAN_CHOICES = (
    Choice(("y", "yes", "approve", "1"), "approve", _ALLOW, message=PLAN_OPTIONS[0]),
    Choice(("a", "accept", "2"), "approve, and accept edits", _ALLOW, message=PLAN_OPTIONS[1]),
    Choice(("e", "edit"), "edit it", _ALLOW, asks_plan=True),
    Choice(("w", "why", "n", "no"), "refuse, and say why", _DENY, asks_why=True),
)
"""Every choice about a plan."""

_LABELS_IN_DOUBT = {
    "once": "it did not run: run it",
    "no": "leave it out",
    "no, and why": "leave it out, and say why",
}
"""What choices mean for a call that may have run."""

_TAKES_TEXT = "type an answer{number}, then Enter; Ctrl-D: no answer"


def is_plan(request: PermissionRequest) -> bool:
    """Whether a request puts a plan before the person."""
    is_offered = request.tool_name == SUBMIT_PLAN and request.options == PLAN_OPTIONS
    return is_offered and isinstance(request.input.get("plan"), str)


def find_choices(request: PermissionRequest, *, can_hide: bool) -> tuple[Choice, ...]:
    """Return the choices of a request; without a narrow rule nothing can be remembered.

    A credential can be given where typing can be hidden, and is the only yes to such a request. An
    agent elsewhere gets none, and remembers an answer for its session at most. A plan can be
    changed where the terminal is live, and so can hide as well. A question in words has none.
    """
    if is_plan(request):
        return tuple(each for each in PLAN_CHOICES if can_hide or not each.asks_plan)
    if request.options is not None:
        return ()
    rules = {_ALLOW: request.remembers, _DENY: request.forbids}
    return tuple(
        each
        for each in CHOICES
        if (each.remember is None or rules[each.decision])
        and not (request.host and (each.asks_value or each.remember in ("project", "always")))
        and (not each.asks_result or request.may_have_run)
        and (not each.asks_what or isinstance(request.input.get(COMMAND_FIELD), str))
        and (each.decision is _DENY or each.asks_value == bool(request.credential))
        and (each.decision is _DENY or each.asks_fields == (request.fields is not None))
        and (can_hide or not each.asks_value)
    )


def list_choices(request: PermissionRequest, *, can_hide: bool) -> tuple[Choice, ...]:
    """Return the choices that a prompt lists, in its order."""
    return tuple(each for each in find_choices(request, can_hide=can_hide) if each.is_listed)


def label_choice(request: PermissionRequest, choice: Choice) -> str:
    """Return what a choice is called in the prompt of a request, with its letter."""
    labels = _LABELS_IN_DOUBT if request.may_have_run else {}
    return f"[{choice.words[0]}] {labels.get(choice.label, choice.label)}"


def describe_choices(request: PermissionRequest, *, can_hide: bool) -> str:
    """Return the choices of a request in one line."""
    if request.options is not None and not is_plan(request):
        return _TAKES_TEXT.format(number=" or a number" if request.options else "")
    listed = list_choices(request, can_hide=can_hide)
    return "  ".join(label_choice(request, each) for each in listed)


def find_choice(line: str, request: PermissionRequest | None = None) -> Choice | None:
    """Return the choice that a line names, or None; of a request it may not be possible.

    Example:
        >>> find_choice("Yes").label, find_choice("yes, but look first")
        ('once', None)
    """
    word = " ".join(line.split()).casefold()
    known = PLAN_CHOICES if request is not None and is_plan(request) else CHOICES
    return next((each for each in known if word in each.words), None)


def explain_absence(request: PermissionRequest, choice: Choice) -> str:
    """Say why a choice is not possible for a request."""
    if choice.asks_plan:
        return "a plan is changed in a live terminal"
    if choice.asks_result:
        return "nothing of it has started"
    if choice.asks_value:
        return CREDENTIAL_VISIBLE if request.credential else "no credential is asked for"
    if choice.asks_fields:
        return "no fields are asked for"
    if request.fields is not None and choice.decision is _ALLOW:
        return "fields are asked for: fill them in, or not"
    if request.credential and choice.decision is _ALLOW:
        return "a credential is asked for: give it, or not"
    return "it has no command" if choice.asks_what else "no narrow rule fits this call"
