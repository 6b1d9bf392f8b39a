"""The open questions of an agent: which one is asked, and what a line or a key answers to it.

It is pure: the screen shows what it says, and `person` carries out what it decides.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from greenroom.cli.choices import (
    COMMAND_FIELD,
    Choice,
    describe_choices,
    explain_absence,
    find_choice,
    find_choices,
    is_plan,
    list_choices,
)
from greenroom.cli.terminal import Line, PromptQuestion, QuestionText
from greenroom.core import PermissionRequest, RuleDecision
from greenroom.core._internal import InvalidJSONError, Remember, Reticent, clip, exact, serde

_ANSWER, _CHOOSE, _APPROVE = "answer> ", "allow? > ", "approve? > "
_WHY = "why not? > "
_VALUE = "value, not shown > "
_WHAT = "run instead? > "
_FIELDS = "as JSON > "
_RESULT = "its result, empty if not known > "
_PLAN = "plan > "
_RAN, _RAN_WITH = "it ran, result not known", "it ran, with this result"
_MAX_QUOTE = 100  # characters of what was refused
_LONG_FORM = ("o", "more", "\x0f")  # the last is Ctrl-O where a terminal passes it on like a letter
TOO_LATE = "not sent: that question is decided already"
_NOT_READ = "not before all of it was shown; Space or PgDn turns the page"


class PersonDecision(Reticent, frozen=True):
    """What a person decided about one request; `value`, of a credential, is never shown."""

    request_id: str
    decision: RuleDecision
    remember: Remember | None = None
    message: str = ""
    input: dict[str, object] | None = None
    value: str = ""
    prefix: bool = False

    def __repr__(self) -> str:
        """Say what was decided, and nothing that was typed."""
        return f"<{self.decision} for {self.request_id}>"


class QuestionState(msgspec.Struct, frozen=True):
    """How a question is shown at the moment.

    Attributes:
        marked: the choice that an Enter takes, or None: at first none is marked.
        takes_prefix: whether a remembered yes stores the rules in `prefixes`.
        is_long: whether all is shown that is known about the call.
        plan: the plan as the person has changed it; None as it was submitted.
    """

    marked: Choice | None = None
    takes_prefix: bool = False
    is_long: bool = False
    plan: str | None = None


_Read: TypeAlias = PersonDecision | str


class QuestionQueue:
    """Open requests, asked one at a time, oldest first.

    It follows the agent's own list of open requests.
    """

    def __init__(self, *, can_hide: bool = False) -> None:
        """Start with nothing open; `can_hide` says whether typed text can be hidden."""
        self._can_hide = can_hide
        self._requests: tuple[PermissionRequest, ...] = ()
        self._answered_ids: set[str] = set()
        self.current: PermissionRequest | None = None
        """The request that is asked now."""
        self.state = QuestionState()
        """How it is shown."""
        self._current_choice: Choice | None = None  # what asks for words next
        self._answer_count = 0  # since nothing was open

    @property
    def place(self) -> str:
        """The number of the current request and of all; empty for a single one."""
        all_ = self._answer_count + len(self._requests)
        return f"question {self._answer_count + 1} of {all_}" if all_ > 1 else ""

    @property
    def asks_for_words(self) -> bool:
        """Whether an answer, a reason or a command is asked for now, and no choice."""
        is_question = self.current is not None and not self._has_choices(self.current)
        return is_question or self._current_choice is not None

    @staticmethod
    def _has_choices(request: PermissionRequest) -> bool:
        return request.options is None or is_plan(request)

    def question(self, shown: QuestionText) -> PromptQuestion | None:
        """Return what the next line may answer; `shown` is the request that is asked now."""
        request, choice = self.current, self._current_choice
        if request is None:
            return None
        id_ = request.request_id
        if choice is None:
            takes_text = not self._has_choices(request)
            label = _ANSWER if takes_text else _APPROVE if is_plan(request) else _CHOOSE
            return PromptQuestion(id_, label, shown, self.place, takes_text=takes_text)
        name, label, text = "why", _WHY, ""
        if choice.asks_what:
            command = str(request.input[COMMAND_FIELD])
            # A text that can't be shown exactly must be typed again.
            name, label, text = "what", _WHAT, command if exact(command) == command else ""
        elif choice.asks_plan:
            name, label, text = "plan", _PLAN, self._plan(request)
        elif choice.asks_fields:
            name, label, text = "fields", _FIELDS, "{}"
        elif choice.asks_result:
            name, label = "result", _RESULT
        elif choice.asks_value:
            name, label = "value", _VALUE
        return PromptQuestion(
            f"{id_} {name}",
            label,
            shown,
            self.place,
            is_follow_up=True,
            takes_text=True,
            text=text,
            is_hidden=choice.asks_value,
            opens_editor=choice.asks_plan,
        )

    def _plan(self, request: PermissionRequest) -> str:
        return str(request.input["plan"]) if self.state.plan is None else self.state.plan

    def switch(self) -> None:
        """Switch between exact words and a prefix, if the current request offers both."""
        if self.current is not None and self.current.prefixes and not self.asks_for_words:
            self.state = replace(self.state, takes_prefix=not self.state.takes_prefix)

    def toggle_long(self) -> None:
        """Show all that is known about the call, or the short form again."""
        if self.current is not None and self._has_choices(self.current):
            self.state = replace(self.state, is_long=not self.state.is_long)

    def move(self, step: int) -> None:
        """Mark the next choice, or the one before; the first move marks the first or the last."""
        if self.current is None or self.asks_for_words:
            return
        choices = list_choices(self.current, can_hide=self._can_hide)
        marked = self.state.marked
        start = -1 if step > 0 else len(choices)
        place = (choices.index(marked) if marked in choices else start) + step
        if choices:
            self.state = replace(self.state, marked=choices[place % len(choices)])

    def go_back(self) -> bool:
        """Leave the words that a choice asks for; False if none does, or a hidden value."""
        choice = self._current_choice
        if choice is None or choice.asks_value:
            return False
        self._current_choice = None
        return True

    def follow(self, pending: Sequence[PermissionRequest]) -> PermissionRequest | None:
        """Update the open requests; return the request to show if the current one changed."""
        ids = {request.request_id for request in pending}
        self._answered_ids &= ids
        known = tuple(each for each in self._requests if each.request_id in ids)
        seen = {request.request_id for request in known} | self._answered_ids
        self._requests = (*known, *(each for each in pending if each.request_id not in seen))
        return self._ask_next()

    def drop(self, request_id: str) -> PermissionRequest | None:
        """Mark a request as answered; return the next one to show, or None."""
        self._answered_ids.add(request_id)
        self._requests = tuple(each for each in self._requests if each.request_id != request_id)
        return self._ask_next()

    def _ask_next(self) -> PermissionRequest | None:
        """Make the oldest open request the current one; return it if it was not before."""
        before, self.current = self.current, self._requests[0] if self._requests else None
        if self.current is before:
            return None
        self._current_choice, self.state = None, QuestionState()
        self._answer_count = self._answer_count + 1 if before is not None and self._requests else 0
        return self.current

    def read(self, line: Line) -> _Read:
        """Read a line as an answer to the question that is open.

        Returns:
            The decision, or a message for the person, which may be empty.
        """
        request, question = self.current, self.question(QuestionText())
        if request is None or question is None or line.question != question.id:
            return TOO_LATE if line.text.strip() else ""
        if self._current_choice is not None:
            chosen, self._current_choice = self._current_choice, None
            return self._read_words(request, chosen, line.text)
        if not self._has_choices(request):
            words = line.text.strip()
            allow = RuleDecision.ALLOW
            return PersonDecision(request.request_id, allow, message=words) if words else ""
        return self._read_choice(request, line)

    def _read_choice(self, request: PermissionRequest, line: Line) -> _Read:
        words = line.text.strip()
        if line.text.startswith("\t"):  # of a terminal that passes it on like a letter
            self.switch()
        if line.text.strip(" \t\r\n").casefold() in _LONG_FORM:
            self.toggle_long()
            return ""
        choice = find_choice(words, request) if words else self.state.marked
        if choice is None:
            return self._refuse(request, words) if words else ""
        if choice not in find_choices(request, can_hide=self._can_hide):
            return f"{choice.label}: not possible here, since {explain_absence(request, choice)}"
        is_refusal = choice.decision is RuleDecision.DENY and not choice.asks_result
        if not line.is_read and (choice.remember or not is_refusal):
            return f"{choice.label}: {_NOT_READ}"
        return self._choose(request, choice)

    def _choose(self, request: PermissionRequest, choice: Choice) -> _Read:
        if choice.asks_more:
            self._current_choice = choice
            return ""
        state, is_yes = self.state, choice.decision is RuleDecision.ALLOW
        return PersonDecision(
            request.request_id,
            choice.decision,
            choice.remember,
            choice.message,
            {**request.input, "plan": state.plan} if is_yes and state.plan is not None else None,
            prefix=state.takes_prefix and is_yes,
        )

    def _read_words(self, request: PermissionRequest, chosen: Choice, text: str) -> _Read:
        """Read what a choice has asked for."""
        if chosen.asks_value:
            return self._read_value(request, text)
        if chosen.asks_fields:
            return self._read_fields(request, text)
        if chosen.asks_result:
            return self._read_result(request, text)
        if chosen.asks_plan:
            return self._read_plan(request, text)
        read = self._read_command if chosen.asks_what else self._read_reason
        return read(request, text)

    def _read_reason(self, request: PermissionRequest, text: str) -> _Read:
        if not text.strip():
            return "no reason given; the question is still open"
        return PersonDecision(request.request_id, RuleDecision.DENY, message=text.strip())

    def _read_plan(self, request: PermissionRequest, text: str) -> str:
        if not text.strip():
            return "the plan was not changed: nothing is left of it"
        plan = None if text.strip() == str(request.input["plan"]).strip() else text.strip()
        self.state = replace(self.state, plan=plan)
        return ""

    def _read_value(self, request: PermissionRequest, text: str) -> _Read:
        value = text.strip()  # pasted text often brings its newline
        if not value:
            return "nothing was typed; the question is still open"
        return PersonDecision(request.request_id, RuleDecision.ALLOW, value=value)

    def _read_fields(self, request: PermissionRequest, text: str) -> _Read:
        try:
            given = serde.decode(text.encode(), dict[str, object])
        except InvalidJSONError as error:
            return f"not an object of JSON, and not sent: {error.message}"
        return PersonDecision(request.request_id, RuleDecision.ALLOW, input=given)

    def _read_result(self, request: PermissionRequest, text: str) -> PersonDecision:
        result: object = text.strip() or None
        with suppress(InvalidJSONError):  # else it is the result as it is
            result = serde.loads(text.encode()) if result else None
        message = _RAN if result is None else _RAN_WITH
        id_, stated = request.request_id, {"result": result}
        return PersonDecision(id_, RuleDecision.DENY, message=message, input=stated)

    def _refuse(self, request: PermissionRequest, text: str) -> str:
        words = clip(exact(" ".join(text.split())), _MAX_QUOTE)
        choices = describe_choices(request, can_hide=self._can_hide)
        if request.credential:  # it may be the value
            return f"that is not a choice, and was not sent: {choices}"
        return f"“{words}” is not a choice, and was not sent: {choices}"

    def _read_command(self, request: PermissionRequest, text: str) -> _Read:
        if not text.strip() or text.strip() == str(request.input[COMMAND_FIELD]).strip():
            return "nothing was changed; the question is still open"
        changed = {**request.input, COMMAND_FIELD: text}
        return PersonDecision(request.request_id, RuleDecision.ALLOW, input=changed)
