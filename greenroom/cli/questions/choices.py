"""What may be answered to a permission request, and how a line names it."""

from dataclasses import dataclass

from greenroom.core import PermissionRequest, Remember, RuleDecision


@dataclass(frozen=True)
class Choice:
    """One answer that can be chosen.

    Attributes:
        words: what may be typed for it; the first is its letter.
        label: what it means.
        decision: allow or deny.
        remember: how long it is remembered, or None for this call alone.
        asks_why: whether a reason for the model is asked next.
        asks_what: whether it is asked next what is to run instead.
        asks_value: whether the value of a credential is asked for next.
        is_listed: whether the prompt lists it; the others are in the documentation.
    """

    words: tuple[str, ...]
    label: str
    decision: RuleDecision
    remember: Remember | None = None
    asks_why: bool = False
    asks_what: bool = False
    asks_value: bool = False
    is_listed: bool = True


_ALLOW, _DENY = RuleDecision.ALLOW, RuleDecision.DENY

CREDENTIAL_HIDDEN = "it is kept in memory until this program ends, and is shown nowhere"
CREDENTIAL_SEEN = (
    "what is typed here would be seen: run this in a terminal that is not a pipe and whose TERM is not"
    " dumb, or give it with handle.give_credential"
)
EDITED = "command"
"""The field of an input that can be changed in a line."""

CHOICES = (
    Choice(("y", "yes", "once"), "once", _ALLOW),
    Choice(("g", "give"), "give it, unseen", _ALLOW, asks_value=True),
    Choice(("e", "edit"), "edit", _ALLOW, asks_what=True),
    Choice(("s", "session"), "this session", _ALLOW, "session"),
    Choice(("p", "project"), "this project", _ALLOW, "project"),
    Choice(("a", "always"), "always", _ALLOW, "always"),
    Choice(("n", "no"), "no", _DENY),
    Choice(("v", "never"), "never", _DENY, "always"),
    Choice(("never session",), "never in this session", _DENY, "session", is_listed=False),
    Choice(("never project",), "never in this project", _DENY, "project", is_listed=False),
    Choice(("w", "why"), "no, and say why", _DENY, asks_why=True),
)
"""Every choice; none of them is bound to Enter or a blank alone."""


def choices_for(request: PermissionRequest, *, can_hide: bool) -> tuple[Choice, ...]:
    """Return the choices of a request; without a narrow rule nothing can be remembered.

    A credential is given where what is typed can be hidden, and is the only yes to such a request.
    """
    rules = {_ALLOW: request.remembers, _DENY: request.forbids}
    return tuple(
        each
        for each in CHOICES
        if (each.remember is None or rules[each.decision])
        and (not each.asks_what or isinstance(request.input.get(EDITED), str))
        and (each.decision is _DENY or each.asks_value == bool(request.credential))
        and (can_hide or not each.asks_value)
    )


def describe_choices(request: PermissionRequest, *, can_hide: bool) -> str:
    """Return the choices of a request as a prompt lists them."""
    if request.options is not None:
        number = " or a number" if request.options else ""
        return f"type an answer{number}, then Enter; Ctrl-D: no answer"
    listed = (each for each in choices_for(request, can_hide=can_hide) if each.is_listed)
    return "  ".join(f"[{each.words[0]}] {each.label}" for each in listed)


def find_choice(line: str) -> Choice | None:
    """Return the choice that a line names; None where it is anything else, such as empty.

    Example:
        >>> find_choice("Yes").label, find_choice("yes, but look first")
        ('once', None)
    """
    word = " ".join(line.split()).casefold()
    return next((each for each in CHOICES if word in each.words), None)
