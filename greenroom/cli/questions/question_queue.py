"""Which permission request is asked now, and what an answer to it does."""

from collections.abc import Sequence
from dataclasses import dataclass

from greenroom.cli.questions.choices import EDITED, Choice, choices_for, find_choice
from greenroom.cli.questions.prompt_pages import PromptPages
from greenroom.cli.terminal.terminal import Line, Question
from greenroom.core import PermissionRequest, Remember, RuleDecision, exact

__all__ = ["TOO_LATE", "Decision", "QuestionQueue"]

_CHOOSE = "allow? > "
_WHY = "why not? > "
_WHAT = "run instead? > "
_MORE = ("more", "diff")
TOO_LATE = "not sent: that question is decided already"


@dataclass(frozen=True)
class Decision:
    """What a person has decided about one request."""

    request_id: str
    decision: RuleDecision
    remember: Remember | None = None
    message: str = ""
    input: dict[str, object] | None = None


class QuestionQueue:
    """Open requests, asked one at a time, oldest first.

    The agent's own list of what is open is the truth; this follows it. It is pure: the renderer
    shows what it says and carries out what it decides.
    """

    def __init__(self) -> None:
        """Start with nothing open."""
        self._open: tuple[PermissionRequest, ...] = ()
        self._answered: set[str] = set()
        self._chosen: Choice | None = None  # what asks for words next
        self._turned = 0  # how many of its further pages were shown
        self.pages: PromptPages | None = None
        """What is shown of the request that is asked now."""

    @property
    def current(self) -> PermissionRequest | None:
        """The request that is asked now."""
        return self._open[0] if self._open else None

    @property
    def waiting(self) -> int:
        """How many wait behind it."""
        return max(len(self._open) - 1, 0)

    @property
    def question(self) -> Question | None:
        """What the next line may answer."""
        if self.current is None:
            return None
        id_ = self.current.request_id
        if self._chosen is None:
            return Question(id_, _CHOOSE)
        if self._chosen.asks_what:
            text = str(self.current.input[EDITED])
            # What can't be shown as it is has to be typed anew.
            shown = text if exact(text) == text else ""
            return Question(f"{id_} what", _WHAT, is_follow_up=True, text=shown)
        return Question(f"{id_} why", _WHY, is_follow_up=True)

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

    def turn_page(self, line: Line) -> int | None:
        """Return which further page is to be shown, if a line asks for one and there is one."""
        request = self.current
        is_word = line.text.strip().casefold() in _MORE
        if not is_word or request is None or line.question != request.request_id:
            return None
        if self.is_read:
            return None
        self._turned += 1
        return self._turned - 1

    @property
    def is_read(self) -> bool:
        """Whether all of the request was shown."""
        return self.pages is None or self._turned >= len(self.pages.further)

    def _changed(self, before: PermissionRequest | None) -> PermissionRequest | None:
        if self.current is before:
            return None
        self._chosen = None
        self._turned = 0
        self.pages = PromptPages.of(self.current) if self.current else None
        return self.current

    def read(self, line: Line) -> Decision | str | None:
        """Read a line as an answer to the question that is open.

        Returns:
            The decision; or words to say to the person, empty where there is nothing to say; or
            None where the line is no answer but something for the agent.
        """
        request, question = self.current, self.question
        if not line.question:
            return None
        if request is None or question is None or line.question != question.id:
            return TOO_LATE if find_choice(line.text) else None
        if self._chosen is not None:
            chosen, self._chosen = self._chosen, None
            read = self._changed_call if chosen.asks_what else self._reason
            return read(request, line.text)
        choice = find_choice(line.text)
        if choice is None and line.text.strip().casefold() in _MORE:
            return "that was all of it"
        if choice is None:
            return None if line.text.strip() else ""
        if choice not in choices_for(request):
            what = "it has no command" if choice.asks_what else "no narrow rule fits this call"
            return f"{choice.label}: not possible here, since {what}"
        if choice not in choices_for(request, is_read=self.is_read):
            return f"{choice.label}: see all of it first; type more"
        return self._choose(request, choice)

    def _choose(self, request: PermissionRequest, choice: Choice) -> Decision | str:
        if choice.asks_why or choice.asks_what:
            self._chosen = choice
            return ""
        return Decision(request.request_id, choice.decision, choice.remember)

    def _reason(self, request: PermissionRequest, text: str) -> Decision | str:
        if not text.strip():
            return "no reason given; the question is still open"
        return Decision(request.request_id, RuleDecision.DENY, message=text.strip())

    def _changed_call(self, request: PermissionRequest, text: str) -> Decision | str:
        if not text.strip() or text.strip() == str(request.input[EDITED]).strip():
            return "nothing was changed; the question is still open"
        changed = {**request.input, EDITED: text}
        return Decision(request.request_id, RuleDecision.ALLOW, input=changed)
