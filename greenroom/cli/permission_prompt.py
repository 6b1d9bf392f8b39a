"""The permission prompt: what it shows, which answers it takes, which request it asks first.

All of it is pure: `screen` shows what it says, `renderer` carries out what it decides. It shows
facts; the model's own words come last.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

from rich.console import Group, RenderableType
from rich.text import Text

from greenroom import core
from greenroom.cli.formatting import shorten_home
from greenroom.cli.painter import ColorScheme, Quoted, diff_text, hang_indent
from greenroom.cli.terminal import Line, PromptQuestion
from greenroom.core import PermissionRequest, RuleDecision, exact
from greenroom.permissions import user_rules_path


@dataclass(frozen=True)
class Choice:
    """One answer that can be chosen.

    Attributes:
        words: what may be typed for it; the first is its letter.
        label: what it means.
        decision: allow or deny.
        remember: how long it is remembered, or None for this call alone.
        asks_why: whether a reason for the model is asked next.
        asks_what: whether the command to run instead is asked next.
        asks_value: whether the value of a credential is asked for next.
        asks_fields: whether what the request's fields ask for is next.
        asks_result: whether the result of a call that has run is asked for next.
        is_listed: whether the prompt lists it; the others are in the documentation.
    """

    words: tuple[str, ...]
    label: str
    decision: RuleDecision
    remember: core.Remember | None = None
    asks_why: bool = False
    asks_what: bool = False
    asks_value: bool = False
    asks_fields: bool = False
    asks_result: bool = False
    is_listed: bool = True


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
    Choice(("e", "edit"), "edit", _ALLOW, asks_what=True),
    Choice(("s", "session"), "this session", _ALLOW, "session"),
    Choice(("p", "project"), "this project", _ALLOW, "project"),
    Choice(("a", "always"), "always", _ALLOW, "always"),
    Choice(("d", "done", "ran"), "it ran", _DENY, asks_result=True),
    Choice(("n", "no"), "no", _DENY),
    Choice(("v", "never"), "never", _DENY, "always"),
    Choice(("never session",), "never in this session", _DENY, "session", is_listed=False),
    Choice(("never project",), "never in this project", _DENY, "project", is_listed=False),
    Choice(("w", "why"), "no, and say why", _DENY, asks_why=True),
)
"""Every choice; none is bound to Enter or a blank alone."""

_LABELS_IN_DOUBT = {
    "once": "it did not run: run it",
    "no": "leave it out",
    "no, and say why": "leave it out, and say why",
}
"""What choices mean for a call that may have run."""


def find_choices(request: PermissionRequest, *, can_hide: bool) -> tuple[Choice, ...]:
    """Return the choices of a request; without a narrow rule nothing can be remembered.

    A credential can be given where typing can be hidden, and is the only yes to such a request.
    """
    rules = {_ALLOW: request.remembers, _DENY: request.forbids}
    return tuple(
        each
        for each in CHOICES
        if (each.remember is None or rules[each.decision])
        and (not each.asks_result or request.may_have_run)
        and (not each.asks_what or isinstance(request.input.get(COMMAND_FIELD), str))
        and (each.decision is _DENY or each.asks_value == bool(request.credential))
        and (each.decision is _DENY or each.asks_fields == (request.fields is not None))
        and (can_hide or not each.asks_value)
    )


def describe_choices(request: PermissionRequest, *, can_hide: bool) -> str:
    """Return the choices of a request as a prompt lists them."""
    if request.options is not None:
        number = " or a number" if request.options else ""
        return f"type an answer{number}, then Enter; Ctrl-D: no answer"
    listed = [each for each in find_choices(request, can_hide=can_hide) if each.is_listed]
    labels = _LABELS_IN_DOUBT if request.may_have_run else {}
    shown = [f"[{each.words[0]}] {labels.get(each.label, each.label)}" for each in listed]
    return "  ".join([*shown, *["[r] how it was read"] * bool(request.runs_as)])


def find_choice(line: str) -> Choice | None:
    """Return the choice that a line names, or None.

    Example:
        >>> find_choice("Yes").label, find_choice("yes, but look first")
        ('once', None)
    """
    word = " ".join(line.split()).casefold()
    return next((each for each in CHOICES if word in each.words), None)


_ANSWER = "answer> "
_CHOOSE = "allow? > "
_WHY = "why not? > "
_VALUE = "value, not shown > "
_WHAT = "run instead? > "
_FIELDS = "as JSON > "
_RESULT = "its result, empty if not known > "
_RAN, _RAN_WITH = "it ran, result not known", "it ran, with this result"
_MAX_QUOTE = 100  # characters of what was refused
TOO_LATE = "not sent: that question is decided already"


@dataclass(frozen=True)
class PersonDecision:
    """What a person decided about one request; `value`, of a credential, is never shown."""

    request_id: str
    decision: RuleDecision
    remember: core.Remember | None = None
    message: str = ""
    input: dict[str, object] | None = None
    value: str = field(default="", repr=False)
    prefix: bool = False


class QuestionQueue:
    """Open requests, asked one at a time, oldest first.

    It follows the agent's own list of open requests. It is pure: the renderer shows its questions
    and carries out its decisions.
    """

    def __init__(self, *, can_hide: bool = False) -> None:
        """Start with nothing open; `can_hide` says whether typed text can be hidden."""
        self._can_hide = can_hide
        self._requests: tuple[PermissionRequest, ...] = ()
        self._answered_ids: set[str] = set()
        self.current: PermissionRequest | None = None
        """The request that is asked now."""
        self.takes_prefix = False
        """Whether a remembered yes stores the rules in `prefixes`; see `switch`."""
        self.shows_reading = False
        """Whether the question shows how its command was read, page by page where it is long."""
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
        is_question = self.current is not None and self.current.options is not None
        return is_question or self._current_choice is not None

    def question(self, paint: Callable[[int], str]) -> PromptQuestion | None:
        """Return what the next line may answer; `paint` shows the request that is asked now."""
        if self.current is None:
            return None
        id_ = self.current.request_id
        if self._current_choice is None:
            label = _CHOOSE if self.current.options is None else _ANSWER
            return PromptQuestion(id_, label, paint, self.place)
        follow_up = partial(PromptQuestion, paint=paint, place=self.place, is_follow_up=True)
        if self._current_choice.asks_what:
            text = str(self.current.input[COMMAND_FIELD])
            # A text that can't be shown exactly must be typed again.
            initial = text if exact(text) == text else ""
            return follow_up(f"{id_} what", _WHAT, text=initial)
        if self._current_choice.asks_value:
            return follow_up(f"{id_} value", _VALUE, is_hidden=True)
        if self._current_choice.asks_fields:
            return follow_up(f"{id_} fields", _FIELDS, text="{}")
        if self._current_choice.asks_result:
            return follow_up(f"{id_} result", _RESULT)
        return follow_up(f"{id_} why", _WHY)

    def switch(self) -> None:
        """Switch between exact words and a prefix, if the current request offers both."""
        if self.current is not None and self.current.prefixes and not self.asks_for_words:
            self.takes_prefix = not self.takes_prefix

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
        self._current_choice, self.takes_prefix, self.shows_reading = None, False, False
        self._answer_count = self._answer_count + 1 if before is not None and self._requests else 0
        return self.current

    def read(self, line: Line) -> PersonDecision | str:
        """Read a line as an answer to the question that is open.

        Returns:
            The decision, or a message for the person, which may be empty.
        """
        request, question = self.current, self.question(lambda _: "")
        if request is None or question is None or line.question != question.id:
            return TOO_LATE if line.text.strip() else ""
        if self._current_choice is not None:
            chosen, self._current_choice = self._current_choice, None
            if chosen.asks_value:
                return self._read_value(request, line.text)
            if chosen.asks_fields:
                return self._read_fields(request, line.text)
            if chosen.asks_result:
                return self._read_result(request, line.text)
            read = self._read_command if chosen.asks_what else self._read_reason
            return read(request, line.text)
        if request.options is not None:
            words = line.text.strip()
            return (
                PersonDecision(request.request_id, RuleDecision.ALLOW, message=words)
                if words
                else ""
            )
        if line.text.startswith("\t"):  # of a terminal that passes it on like a letter
            self.switch()
        if request.runs_as and line.text.strip().casefold() in ("r", "read"):
            self.shows_reading = not self.shows_reading
            return ""
        choice = find_choice(line.text)
        if choice is None:
            return self._refuse(request, line.text) if line.text.strip() else ""
        if choice not in find_choices(request, can_hide=self._can_hide):
            return f"{choice.label}: not possible here, since {_why_not(request, choice)}"
        is_refusal = choice.decision is RuleDecision.DENY and not choice.asks_result
        if not line.is_read and (choice.remember or not is_refusal):
            return f"{choice.label}: not before all of it was shown; Space or PgDn turns the page"
        return self._choose(request, choice)

    def _choose(self, request: PermissionRequest, choice: Choice) -> PersonDecision | str:
        if _asks_more(choice):
            self._current_choice = choice
            return ""
        prefix = self.takes_prefix and choice.decision is RuleDecision.ALLOW
        return PersonDecision(request.request_id, choice.decision, choice.remember, prefix=prefix)

    def _read_reason(self, request: PermissionRequest, text: str) -> PersonDecision | str:
        if not text.strip():
            return "no reason given; the question is still open"
        return PersonDecision(request.request_id, RuleDecision.DENY, message=text.strip())

    def _read_value(self, request: PermissionRequest, text: str) -> PersonDecision | str:
        value = text.strip()  # pasted text often brings its newline
        if not value:
            return "nothing was typed; the question is still open"
        return PersonDecision(request.request_id, RuleDecision.ALLOW, value=value)

    def _read_fields(self, request: PermissionRequest, text: str) -> PersonDecision | str:
        try:
            given = core.serde.decode(text.encode(), dict[str, object])
        except core.InvalidJSONError as error:
            return f"not an object of JSON, and not sent: {error.message}"
        return PersonDecision(request.request_id, RuleDecision.ALLOW, input=given)

    def _read_result(self, request: PermissionRequest, text: str) -> PersonDecision:
        result: object = text.strip() or None
        with suppress(core.InvalidJSONError):  # else it is the result as it is
            result = core.serde.loads(text.encode()) if result else None
        message = _RAN if result is None else _RAN_WITH
        id_, stated = request.request_id, {"result": result}
        return PersonDecision(id_, RuleDecision.DENY, message=message, input=stated)

    def _refuse(self, request: PermissionRequest, text: str) -> str:
        words = core.clip(exact(" ".join(text.split())), _MAX_QUOTE)
        choices = describe_choices(request, can_hide=self._can_hide)
        if request.credential:  # it may be the value
            return f"that is not a choice, and was not sent: {choices}"
        return f"“{words}” is not a choice, and was not sent: {choices}"

    def _read_command(self, request: PermissionRequest, text: str) -> PersonDecision | str:
        if not text.strip() or text.strip() == str(request.input[COMMAND_FIELD]).strip():
            return "nothing was changed; the question is still open"
        changed = {**request.input, COMMAND_FIELD: text}
        return PersonDecision(request.request_id, RuleDecision.ALLOW, input=changed)


def _asks_more(choice: Choice) -> bool:
    asks = (choice.asks_why, choice.asks_what, choice.asks_value, choice.asks_fields)
    return any(asks) or choice.asks_result


def _why_not(request: PermissionRequest, choice: Choice) -> str:
    if choice.asks_result:
        return "nothing of it has started"
    if choice.asks_value:
        return CREDENTIAL_VISIBLE if request.credential else "no credential is asked for"
    if choice.asks_fields:
        return "no fields are asked for"
    if request.fields is not None and choice.decision is RuleDecision.ALLOW:
        return "fields are asked for: fill them in, or not"
    if request.credential and choice.decision is RuleDecision.ALLOW:
        return "a credential is asked for: give it, or not"
    return "it has no command" if choice.asks_what else "no narrow rule fits this call"


_MARKS = {RuleDecision.ALLOW: "allowed", RuleDecision.DENY: "denied", RuleDecision.ASK: "asks"}


def render_part(part: core.PermissionPart, scheme: ColorScheme) -> RenderableType:
    """Show a part of a call, and what the rules say about it; no line looks like another part."""
    styles = {RuleDecision.ALLOW: scheme.added, RuleDecision.DENY: scheme.error}
    head = Text(f"  {_MARKS[part.decision]:<8}", styles.get(part.decision, ""))
    body = Text(" ".join(exact(part.text).split("\n")), overflow="fold")
    reasons = [exact(part.reason)] if part.reason != part.text else []
    reasons += [exact(shorten_home(part.source))] if part.source else []
    if reasons:
        body.append(f"  ({'; '.join(reasons)})", scheme.note)
    return hang_indent(head, body)


_MAX_CLAIM = 300  # characters
_RECORD_LIMITS = (40, 4_000)  # lines and characters of each text in the record of a question


def render_request(
    request: PermissionRequest,
    scheme: ColorScheme,
    warning: str = "",
    *,
    can_hide: bool = True,
    takes_prefix: bool = False,
    shows_reading: bool = False,
) -> RenderableType:
    """Show all that a person needs to decide, whole.

    Args:
        request: the request.
        scheme: the colours.
        warning: what should be known before a choice is made.
        can_hide: whether the terminal can hide typed text.
        takes_prefix: whether a remembered yes would store the rules in `prefixes`.
        shows_reading: whether to show how the command was read.
    """
    lines: list[RenderableType] = [_head(request, "asks", scheme)]
    if request.details:
        lines.append(_quote(Text(exact(request.details)), scheme))
    if request.diff:
        lines.append(_quote(diff_text(exact(request.diff), scheme), scheme))
    if request.fields is not None:
        lines += [Text("  asks for:", scheme.note), _quote(Text(_show_fields(request)), scheme)]
    if shows_reading:
        lines += [Text("  read as:", scheme.note), _quote(Text(exact(request.runs_as)), scheme)]
    lines += [_render_line(line, "bold") for line in _warnings(request)]
    lines += [render_part(part, scheme) for part in request.parts]
    lines += [_render_line(line, scheme.effect) for line in _effects(request)]
    remarks = _remarks(request, can_hide=can_hide, takes_prefix=takes_prefix)
    lines += [_render_line(line, scheme.note) for line in remarks]
    if request.sandbox is not None:
        lines.append(_sandbox(request.sandbox, scheme))
    if warning:
        lines.append(_render_line(warning, scheme.error))
    if request.claim:
        lines.append(_claim(request.claim, scheme))
    lines.append(Text(f"  {describe_choices(request, can_hide=can_hide)}", scheme.question))
    return Group(*lines)


def _show_fields(request: PermissionRequest) -> str:
    return exact(core.serde.to_text(request.fields))


def render_record(request: PermissionRequest, scheme: ColorScheme) -> RenderableType:
    """Show what was asked, once it is decided; long texts are cut."""
    lines: list[RenderableType] = [_head(request, "asked", scheme)]
    if request.details:
        lines.append(_quote(Text(_cut_text(exact(request.details))), scheme))
    if request.diff:
        lines.append(_quote(diff_text(_cut_text(exact(request.diff)), scheme), scheme))
    return Group(*lines)


def _cut_text(text: str) -> str:
    lines, letters = _RECORD_LIMITS
    start = "\n".join(text[:letters].split("\n")[:lines])
    left = len(text) - len(start)
    return f"{start}\n… {left:,} more characters …" if left else start


def _quote(text: Text, scheme: ColorScheme) -> RenderableType:
    """Mark each line of a foreign text, so that it can't be mistaken for ours."""
    return Quoted(Text("  │ ", scheme.note), text)


def _render_line(text: str, style: str) -> RenderableType:
    return hang_indent(Text("  "), Text(" ".join(exact(text).split("\n")), style))


def _warnings(request: PermissionRequest) -> tuple[str, ...]:
    """Return what may mislead; searched for here where the request does not come from a runtime."""
    if request.warnings or request.session_id:
        return request.warnings
    return core.disguises(
        request.action, request.details, request.diff, *core.texts_in(request.input)
    )


def _head(request: PermissionRequest, verb: str, scheme: ColorScheme) -> Text:
    who = " > ".join(exact(name) for name in request.lineage) or "the agent"
    head = Text("? ", scheme.question)
    return head.append(f"{who} {verb}: {exact(request.action)} ({exact(request.tool_name)})")


def _sandbox(report: core.SandboxReport, scheme: ColorScheme) -> RenderableType:
    """Describe the sandbox of the call; a gap is highlighted."""
    warns = report.lacking or report.as_root
    return _render_line(f"sandbox: {exact(str(report))}", scheme.error if warns else scheme.note)


def _effects(request: PermissionRequest) -> Iterator[str]:
    """Describe the effects outside the workspace."""
    effects = request.effects
    for what, found in (
        ("runs with other rights", effects.privileges),
        ("writes outside the workspace", effects.writes),
        ("reads outside the workspace", effects.reads),
        ("names files outside the workspace", effects.names),
        ("contacts", effects.hosts),
        ("besides", effects.changes),
    ):
        if found:
            yield f"{what}: {', '.join(exact(each) for each in found)}"
    for program in effects.unchecked:
        yield f"the files that {exact(program)} reads by default are not checked"


def _remarks(request: PermissionRequest, *, can_hide: bool, takes_prefix: bool) -> Iterator[str]:
    if request.options is not None:
        return
    if request.credential:
        yield f"asked because: {exact(request.reason)}"
        yield CREDENTIAL_HIDDEN if can_hide else CREDENTIAL_VISIBLE
        return
    if request.host or request.cwd:
        yield _describe_place(request)
    if request.reason and not request.parts:
        yield f"asked because: {exact(request.reason)}"
    if request.remembers:
        yield _describe_rules(request, takes_prefix=takes_prefix)
    elif not request.may_have_run:
        why = exact(request.unremembered) or "no narrow rule fits"
        yield f"{why}, so a yes can't be remembered"
    if request.forbids:
        yield f"never stores: {', '.join(exact(rule) for rule in request.forbids)}"
    if request.remembers or request.forbids:
        path = shorten_home(str(user_rules_path()))
        yield f"always and never count in every project: {exact(path)}"


def _describe_place(request: PermissionRequest) -> str:
    """Say where it would run: the machine, if it is another one, before the directory."""
    machine = [f"on the machine {exact(request.host)}"] if request.host else []
    return ", ".join([*machine, *[f"in {exact(request.cwd)}"] * bool(request.cwd)])


def _describe_rules(request: PermissionRequest, *, takes_prefix: bool) -> str:
    """Describe what a remembered yes would store, and what it would after Tab."""
    rules, others = request.remembers, request.prefixes
    if takes_prefix and others:
        rules, others = others, rules
    text = f"remembered as: {', '.join(map(exact, rules))}"
    switched = ", ".join(exact(rule) for rule in others if rule not in rules)
    return f"{text} · Tab: {switched}" if switched else text


def _claim(claim: str, scheme: ColorScheme) -> RenderableType:
    """Show what the model says about the call, in quotes, so that it can't be mistaken for ours."""
    words = core.clip(exact(" ".join(claim.split())), _MAX_CLAIM)
    return _render_line(f"agent says: “{words}”", scheme.note)
