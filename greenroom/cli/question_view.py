"""A permission prompt as short as its risk, and the line that is left of it once it is answered.

The command or the file comes first, then who asks and why, what may mislead, what is touched
outside the workspace, and the choices. The long form (`permission_prompt`) has the rest.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from greenroom.cli.choices import describe_choices, is_plan, label_choice, list_choices
from greenroom.cli.diff_view import number_diff
from greenroom.cli.painter import ColorScheme, Painter, Quoted, hang_indent
from greenroom.cli.permission_prompt import (
    describe_place,
    find_warnings,
    long_lines,
    name_asker,
    render_line,
    render_sandbox,
)
from greenroom.cli.question_queue import QuestionState
from greenroom.cli.renderables import Group, RenderableType
from greenroom.cli.terminal import Paint, QuestionText
from greenroom.core import PermissionRequest, PermissionResponse, RuleDecision
from greenroom.core._internal import PermissionPart, describe_effects, exact

_MORE, _LESS = "Ctrl-O: more", "Ctrl-O: less"
_TYPED_MORE, _TYPED_LESS = "[o] more", "[o] less"
_GO_BACK = "Esc: back to the question"
_LIFETIMES = {"session": "this session", "project": "this project", "always": "always"}
_LEAST = 20  # columns that are left to a text that has to be cut


class QuestionView:
    """Paints one request, in short or in its long form."""

    def __init__(
        self,
        request: PermissionRequest,
        painter: Painter,
        scheme: ColorScheme,
        warning: str = "",
        *,
        is_live: bool = True,
    ) -> None:
        """Paint this request; the warning is what should be known before a choice is made."""
        self.request = request
        self._painter = painter
        self._scheme = scheme
        self._warning = warning
        self._is_live = is_live
        # Terminals know what is shown by these functions, so they stay the same while it is.
        self._bodies: dict[tuple[object, ...], tuple[Paint, Paint]] = {}
        self._texts: dict[tuple[QuestionState, bool], QuestionText] = {}

    def show(self, state: QuestionState, *, asks_for_words: bool = False) -> QuestionText:
        """Return what the question shows in this state."""
        request = self.request
        takes_words = asks_for_words and (request.options is None or is_plan(request))
        key = state, takes_words
        if key not in self._texts:
            paint, content = self._body(state)
            choices = self._painting(self._back if takes_words else partial(self._choices, state))
            self._texts[key] = QuestionText(paint, content, choices)
        return self._texts[key]

    def _body(self, state: QuestionState) -> tuple[Paint, Paint]:
        # In the long form Tab changes what is to be read, in the short one only the choices.
        key = (state.is_long, state.plan, state.is_long and state.takes_prefix)
        if key not in self._bodies:
            lines, content = partial(self._lines, state), partial(self._content, state)
            self._bodies[key] = self._painting(lines), self._painting(content)
        return self._bodies[key]

    def _painting(self, lines: Callable[[int], Sequence[RenderableType]]) -> Paint:
        # The last column stays free here too, if it can.
        return lambda columns: self._painter.paint(lines(columns - 1), columns - 1)

    def _lines(self, state: QuestionState, columns: int) -> Sequence[RenderableType]:
        request, scheme = self.request, self._scheme
        if state.is_long or not _is_short(request):
            return tuple(
                long_lines(
                    request,
                    scheme,
                    self._warning,
                    can_hide=self._is_live,
                    takes_prefix=state.takes_prefix,
                )
            )
        return tuple(_short_lines(request, scheme))

    def _content(self, state: QuestionState, columns: int) -> Sequence[RenderableType]:
        """Show what may be cut: the diff of a file in the workspace, or a plan that was changed."""
        if state.is_long:
            return ()
        if is_plan(self.request) and state.plan is not None:
            return (_quote(Text(exact(state.plan)), self._scheme),)
        if _has_free_diff(self.request):
            return (_quote(number_diff(self.request.diff, self._scheme), self._scheme),)
        return ()

    def _back(self, columns: int) -> Sequence[RenderableType]:
        return (Text(f"  {_GO_BACK}", self._scheme.note),) if self._is_live else ()

    def _choices(self, state: QuestionState, columns: int) -> Sequence[RenderableType]:
        request, scheme = self.request, self._scheme
        if request.options is not None and not is_plan(request):
            text = describe_choices(request, can_hide=self._is_live)
            return (Text(f"  {text}", scheme.question),)
        choices = list_choices(request, can_hide=self._is_live)
        letters = [each.words[0] for each in choices if each.label in _LIFETIMES]
        kept = [] if state.is_long else _describe_kept(request, state, letters, columns - 2)
        labels = [(label_choice(request, each), each == state.marked) for each in choices]
        if self._warning and not state.is_long:
            later = "[p] project"
            labels = [(f"{each} (this run)" if each == later else each, m) for each, m in labels]
        if self._is_live:
            labels.append((_LESS if state.is_long else _MORE, False))
        else:
            labels.append((_TYPED_LESS if state.is_long else _TYPED_MORE, False))
        rows = _arrange(labels, columns, scheme)
        return (*(Text(f"  {line}", scheme.note) for line in kept), *rows)


def _is_short(request: PermissionRequest) -> bool:
    """Whether a request has a short form: it asks for permission, or puts a plan."""
    is_special = request.credential or request.fields is not None or request.may_have_run
    return is_plan(request) or not (is_special or request.options is not None)


def _has_free_diff(request: PermissionRequest) -> bool:
    """Whether a request changes one file of the workspace, whose content holds no answer back."""
    return request.diff.startswith("--- ") and not request.effects.writes


def _short_lines(request: PermissionRequest, scheme: ColorScheme) -> Iterator[RenderableType]:
    """Show what has to be read before a yes."""
    what = "Carry out this plan?" if is_plan(request) else request.details or request.action
    head = Text("? ", scheme.question)
    yield Quoted(head, Text(exact(what), "bold"), later=Text("│ ", scheme.note))
    if request.diff and not _has_free_diff(request):
        yield _quote(number_diff(request.diff, scheme), scheme)
    yield _why(request, scheme)
    yield from (render_line(line, "bold") for line in find_warnings(request))
    yield from (render_line(line, scheme.effect) for line in describe_effects(request.effects))
    if request.sandbox is not None and (request.sandbox.lacking or request.sandbox.as_root):
        yield render_sandbox(request.sandbox, scheme)


def _why(request: PermissionRequest, scheme: ColorScheme) -> RenderableType:
    """Say who asks for what, where, if that is not here, and why; in one row unless a rule asks."""
    asks = f"{name_asker(request)} asks: {exact(request.action)} ({exact(request.tool_name)})"
    is_elsewhere = request.host or (request.cwd and request.cwd != os.getcwd())
    place = describe_place(request) if is_elsewhere else ""
    text = " · ".join(filter(None, (asks, place, _reason(request))))
    line = Text(" ".join(text.split("\n")), scheme.note)
    if not is_elsewhere and not any(part.rule_id for part in _asking(request)):
        line.no_wrap, line.overflow = True, "ellipsis"
    return hang_indent(Text("  "), line)


def _asking(request: PermissionRequest) -> list[PermissionPart]:
    return [part for part in request.parts if part.decision is not RuleDecision.ALLOW]


def _reason(request: PermissionRequest) -> str:
    """Say why a person is asked, and about which parts of a longer call; a rule's reason first."""
    asking = _asking(request)
    if not asking:
        return "" if is_plan(request) else exact(request.reason)
    asking = [part for part in asking if part.rule_id] or asking
    about = dict[str, list[str]]()
    for part in asking:
        about.setdefault(exact(part.reason), []).append(exact(part.text))
    if len(request.parts) == 1:
        return next(iter(about))
    return "; ".join(
        reason if parts == [reason] else f"{reason}: {', '.join(parts)}"
        for reason, parts in about.items()
    )


def _quote(text: Text, scheme: ColorScheme) -> RenderableType:
    """Mark each line of a foreign text, so that it can't be mistaken for ours."""
    return Quoted(Text("│ ", scheme.note), text)


def _describe_kept(
    request: PermissionRequest, state: QuestionState, letters: Sequence[str], columns: int
) -> list[str]:
    """Say in one row what a remembered yes would store, and what it would after Tab."""
    if not request.remembers or not letters:
        return []
    begin = f"{', '.join(letters)} {'keep' if len(letters) > 1 else 'keeps'}: "
    rules, others = request.remembers, request.prefixes
    if state.takes_prefix and others:
        rules, others = others, rules
    kept = ", ".join(_shorten_rule(rule, request) for rule in rules)
    changed = ", ".join(_shorten_rule(rule, request) for rule in others if rule not in rules)
    end = f" · Tab: {changed}" if changed else ""
    room = columns - cell_len(begin)
    if cell_len(kept) + cell_len(end) > room:
        end = _fit(end, max(room - cell_len(kept), room - _LEAST)) if end else ""
        kept = _fit(kept, max(room - cell_len(end), 1))
    return [begin + kept + end]


def _shorten_rule(rule: str, request: PermissionRequest) -> str:
    """Name a rule; one about the tool that is asked about by what it says of it."""
    name, tool = _name_rule(rule), f"{request.tool_name}("
    return name[len(tool) : -1] if name.startswith(tool) and name.endswith(")") else name


def _fit(text: str, columns: int) -> str:
    """Cut a text to so many columns, the last of them an ellipsis."""
    if cell_len(text) <= columns:
        return text
    return f"{set_cell_size(text, max(columns - 1, 0)).rstrip()}…"


def _name_rule(rule: str) -> str:
    return exact(rule).removeprefix("allow ")


def _arrange(
    labels: Sequence[tuple[str, bool]], columns: int, scheme: ColorScheme
) -> Iterator[RenderableType]:
    """Put the choices into rows, none of them cut; a marked one has a sign before it."""
    row, used = Text(), 0
    for label, is_marked in labels:
        if used and used + 2 + len(label) > columns:
            yield row
            row, used = Text(), 0
        row.append(" >" if is_marked else "  ", scheme.question)
        row.append(label, f"{scheme.question} reverse" if is_marked else scheme.question)
        used += 2 + len(label)
    if used:
        yield row


def render_record(
    request: PermissionRequest, response: PermissionResponse | None, scheme: ColorScheme, width: int
) -> RenderableType:
    """Show in one line what was asked, and what was decided, or that it was withdrawn.

    The person's own words are shown whole, and so is a question in words.
    """
    is_yes = response is not None and response.decision is RuleDecision.ALLOW
    mark, style = ("✓", scheme.added) if is_yes else ("✗", scheme.error)
    if response is None or response.cancelled:
        mark, style = "-", scheme.note
    decided = _describe_response(request, response)
    if request.options is not None and not is_plan(request):
        question = _quote(Text(exact(request.details)), scheme)
        return Group(question, hang_indent(Text(f"{mark} ", style), Text(decided)))
    what = "a plan" if is_plan(request) else exact(request.details or request.action)
    head, tail = f"{name_asker(request)}: ", f" · {decided}"
    room = max(width - 2 - cell_len(head) - cell_len(tail), _LEAST // 2)
    line = Text(f"{head}{_fit(' '.join(what.split()), room)}", scheme.note)
    line.append(tail, scheme.note if is_yes else style)
    has_words = response is not None and response.message
    if not has_words:
        line.no_wrap, line.overflow = True, "ellipsis"
    return hang_indent(Text(f"{mark} ", style), line)


def _describe_response(request: PermissionRequest, response: PermissionResponse | None) -> str:
    tool = exact(request.tool_name)
    if response is None:
        return f"the question about {tool} is over"
    if response.cancelled:
        return f"the question about {tool} was withdrawn"
    is_yes = response.decision is RuleDecision.ALLOW
    text = f"{tool} {'allowed' if is_yes else 'denied'} by {exact(response.by)}"
    if response.message:
        text += f": {' '.join(exact(response.message).split())}"
    if response.remember:
        rules = ", ".join(_name_rule(rule) for rule in response.rules)
        text += f", remembered for {_LIFETIMES[response.remember]}"
        text += f": {rules}" if rules else ""
    return text
