"""Which permission request is asked now, and what an answer to it does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from greenroom.cli.questions.choices import (
    CREDENTIAL_SEEN,
    EDITED,
    Choice,
    choices_for,
    describe_choices,
    find_choice,
)
from greenroom.cli.terminal.terminal import Line, Question
from greenroom.core import PermissionRequest, Remember, RuleDecision, clip, exact

_ANSWER = "answer> "
_CHOOSE = "allow? > "
_WHY = "why not? > "
_VALUE = "value, not shown > "
_WHAT = "run instead? > "
_QUOTED = 100  # characters of what was refused
TOO_LATE = "not sent: that question is decided already"


@dataclass(frozen=True)
class Decision:
    """What a person has decided about one request; `value` is that of a credential, for nobody to see."""

    request_id: str
    decision: RuleDecision
    remember: Remember | None = None
    message: str = ""
    input: dict[str, object] | None = None
    value: str = field(default="", repr=False)


class QuestionQueue:
    """Open requests, asked one at a time, oldest first.

    The agent's own list of what is open is the truth; this follows it. It is pure: the renderer
    shows what it says and carries out what it decides.
    """

    def __init__(self, *, can_hide: bool = False) -> None:
        """Start with nothing open; `can_hide` says whether what is typed can be hidden."""
        self._can_hide = can_hide
        self._open: tuple[PermissionRequest, ...] = ()
        self._answered: set[str] = set()
        self._chosen: Choice | None = None  # what asks for words next
        self._decided = 0  # since nothing was open

    @property
    def current(self) -> PermissionRequest | None:
        """The request that is asked now."""
        return self._open[0] if self._open else None

    @property
    def place(self) -> str:
        """Which of how many is asked now; empty where it is the only one."""
        all_ = self._decided + len(self._open)
        return f"question {self._decided + 1} of {all_}" if all_ > 1 else ""

    @property
    def asks_for_words(self) -> bool:
        """Whether an answer, a reason or a command is asked for now, and no choice."""
        is_question = self.current is not None and self.current.options is not None
        return is_question or self._chosen is not None

    def question(self, paint: Callable[[int], str]) -> Question | None:
        """Return what the next line may answer; `paint` shows the request that is asked now."""
        if self.current is None:
            return None
        id_ = self.current.request_id
        if self._chosen is None:
            label = _CHOOSE if self.current.options is None else _ANSWER
            return Question(id_, label, paint, self.place)
        if self._chosen.asks_what:
            text = str(self.current.input[EDITED])
            # What can't be shown as it is has to be typed anew.
            shown = text if exact(text) == text else ""
            return Question(f"{id_} what", _WHAT, paint, self.place, is_follow_up=True, text=shown)
        if self._chosen.asks_value:
            id_ = f"{id_} value"
            return Question(id_, _VALUE, paint, self.place, is_follow_up=True, is_hidden=True)
        return Question(f"{id_} why", _WHY, paint, self.place, is_follow_up=True)

    def follow(self, pending: Sequence[PermissionRequest]) -> PermissionRequest | None:
        """Take what is open now; return the request to show, if another one is asked than before."""
        before = self.current
        ids = {request.request_id for request in pending}
        self._answered &= ids
        known = tuple(each for each in self._open if each.request_id in ids)
        seen = {request.request_id for request in known} | self._answered
        self._open = (*known, *(each for each in pending if each.request_id not in seen))
        return self._changed(before)

    def drop(self, request_id: str) -> PermissionRequest | None:
        """Take a request as answered; return the request to show next, if there is one."""
        before = self.current
        self._answered.add(request_id)
        self._open = tuple(each for each in self._open if each.request_id != request_id)
        return self._changed(before)

    def _changed(self, before: PermissionRequest | None) -> PermissionRequest | None:
        if self.current is before:
            return None
        self._chosen = None
        self._decided = self._decided + 1 if before is not None and self._open else 0
        return self.current

    def read(self, line: Line) -> Decision | str:
        """Read a line as an answer to the question that is open.

        Returns:
            The decision; or words to say to the person, empty where there is nothing to say.
        """
        request, question = self.current, self.question(lambda _: "")
        if request is None or question is None or line.question != question.id:
            return TOO_LATE if line.text.strip() else ""
        if self._chosen is not None:
            chosen, self._chosen = self._chosen, None
            if chosen.asks_value:
                return self._given(request, line.text)
            read = self._changed_call if chosen.asks_what else self._reason
            return read(request, line.text)
        if request.options is not None:
            words = line.text.strip()
            return Decision(request.request_id, RuleDecision.ALLOW, message=words) if words else ""
        choice = find_choice(line.text)
        if choice is None:
            return self._refuse(request, line.text) if line.text.strip() else ""
        if choice not in choices_for(request, can_hide=self._can_hide):
            return f"{choice.label}: not possible here, since {_why_not(request, choice)}"
        if not line.is_read and (choice.decision is RuleDecision.ALLOW or choice.remember):
            return f"{choice.label}: not before all of it was shown; Space or PgDn goes on"
        return self._choose(request, choice)

    def _choose(self, request: PermissionRequest, choice: Choice) -> Decision | str:
        if choice.asks_why or choice.asks_what or choice.asks_value:
            self._chosen = choice
            return ""
        return Decision(request.request_id, choice.decision, choice.remember)

    def _reason(self, request: PermissionRequest, text: str) -> Decision | str:
        if not text.strip():
            return "no reason given; the question is still open"
        return Decision(request.request_id, RuleDecision.DENY, message=text.strip())

    def _given(self, request: PermissionRequest, text: str) -> Decision | str:
        value = text.strip()  # what is pasted often brings the end of its line
        if not value:
            return "nothing was typed; the question is still open"
        return Decision(request.request_id, RuleDecision.ALLOW, value=value)

    def _refuse(self, request: PermissionRequest, text: str) -> str:
        words = clip(exact(" ".join(text.split())), _QUOTED)
        choices = describe_choices(request, can_hide=self._can_hide)
        if request.credential:  # it may be the value
            return f"that is not a choice, and was not sent: {choices}"
        return f"“{words}” is not a choice, and was not sent: {choices}"

    def _changed_call(self, request: PermissionRequest, text: str) -> Decision | str:
        if not text.strip() or text.strip() == str(request.input[EDITED]).strip():
            return "nothing was changed; the question is still open"
        changed = {**request.input, EDITED: text}
        return Decision(request.request_id, RuleDecision.ALLOW, input=changed)


def _why_not(request: PermissionRequest, choice: Choice) -> str:
    if request.credential and choice.decision is RuleDecision.ALLOW:
        return (
            CREDENTIAL_SEEN if choice.asks_value else "a credential is asked for: give it, or not"
        )
    if choice.asks_value:
        return "no credential is asked for"
    return "it has no command" if choice.asks_what else "no narrow rule fits this call"
