"""Judgements: the decision about a call, and what runs if it is allowed.

An allowed plain command runs as it was judged, not as its text: each word is written out, each
program is pinned to the file that was found, and git gets the options that keep it from running
what a repository names.
"""

import hashlib
import os
import stat
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import count

from msgspec import structs

from greenroom.core import AgentContext, RuleDecision
from greenroom.core._internal import PermissionPart, Reticent, clip, describe_error
from greenroom.git._internal import GIT_SETTINGS, add_overrides, hides_changes
from greenroom.permissions.call import Call
from greenroom.permissions.evaluator import Ruling, combine
from greenroom.permissions.rule import PermissionRule
from greenroom.shell._internal import Command, Place, Script, SimpleCommand, Unknown, render

MAX_COMMAND = 131_071 - 1024  # bytes: Linux takes no longer argument, and the tool adds a line
_HIDDEN_CHANGES = "changes of files inside submodules are not shown"


class Judgement(Reticent, frozen=True, eq=False, dict=True):
    """The decision about a call; `explain` adds what a person needs to know to answer.

    Attributes:
        call: what was judged.
        decision: allow, deny or ask.
        rulings: what the rules and the mode say about each part.
    """

    call: Call
    decision: RuleDecision
    rulings: tuple[Ruling, ...]

    def __repr__(self) -> str:
        """Leave out the call, whose input may be long or secret, and the rulings with it."""
        return f"<{type(self).__name__}: {self.decision}>"

    @classmethod
    def of(cls, call: Call, rulings: tuple[Ruling, ...]) -> "Judgement":
        """Combine the rulings on a call; a command that is too long to run is asked about."""
        found = cls(call, combine(rulings), rulings)
        if found.decision is RuleDecision.ALLOW and len(found.runs_as.encode()) > MAX_COMMAND:
            why = f"the command has more than {MAX_COMMAND:,} bytes, each word written out"
            return found.ask(why)
        return found

    @cached_property
    def runs_as(self) -> str:
        """What a plain command was read as, which runs in its place where rules allow it.

        It is empty for other calls, and for a text that is not plain.
        """
        script = self.call.script
        return "" if script is None else _write_command(script, self.call, self.rulings)

    def ask(self, reason: str) -> "Judgement":
        """Return the same with a question for this reason, unless it is denied."""
        if self.decision is RuleDecision.DENY:
            return self
        question = Ruling(Unknown(reason=reason), RuleDecision.ASK, reason)
        return structs.replace(self, decision=RuleDecision.ASK, rulings=(question, *self.rulings))

    @property
    def missing_answers(self) -> tuple[str, ...]:
        """The folders in which git has to be asked before it can be told whether it only reads."""
        return tuple(self.call.missing_answers)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the result of the call should say beside its output."""
        read = (ruling.fact for ruling in self.rulings if ruling.reads)
        hidden = any(isinstance(fact, Command) and hides_changes(fact.argv) for fact in read)
        hidden = hidden and any(each.has_submodules for each in self.call.git.values())
        return (_HIDDEN_CHANGES,) if hidden else ()

    @cached_property
    def digest(self) -> str:
        """A SHA-256 that identifies the call, without the files that its commands name.

        It covers what the tool states, the text that runs, where the paths lead on this disk, and
        the folder and the programs as they are there.
        """
        files = sorted({each.file for each in self.call.commands if each.file})
        there = [_identify(path) for path in (self.call.place.folder, *files)]
        stated = f"{self.call.digest} {self.runs_as} {there}"
        return hashlib.sha256(stated.encode("utf-8", "backslashreplace")).hexdigest()

    @cached_property
    def _chief(self) -> Ruling:
        return next(each for each in self.rulings if each.decision is self.decision)

    @property
    def reason(self) -> str:
        """The reason, in words for people and models."""
        chief = self._chief
        is_named = len(self.rulings) == 1 or str(chief.fact) in chief.reason
        return chief.reason if is_named else f"{chief.fact}: {chief.reason}"

    @property
    def rule(self) -> PermissionRule | None:
        """The rule that decided, or None."""
        return self._chief.rule

    @cached_property
    def parts(self) -> tuple[PermissionPart, ...]:
        """The ruling on each part of the call."""
        return tuple(ruling.part for ruling in self.rulings)

    @property
    def message(self) -> str:
        """What the model reads if the call is denied."""
        return self._chief.message


def judge_failure(
    tool: str,
    input: Mapping[str, object],  # noqa: A002 - the word that models and tools use
    context: AgentContext,
    error: Exception,
) -> Judgement:
    """Ask about a call that could not be judged because of an error."""
    fact = Unknown(reason=f"the call could not be judged: {clip(describe_error(error), 300)}")
    place = Place(str(context.workspace.root), str(context.workspace.cwd))
    call = Call(tool, "", input, (), (fact,), place)
    return Judgement(call, RuleDecision.ASK, (Ruling(fact, RuleDecision.ASK, fact.reason),))


def _identify(path: str) -> tuple[int, ...]:
    """Return what changes if another file takes the place of this one."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):
        return ()
    changes = () if stat.S_ISDIR(found.st_mode) else (found.st_size, found.st_mtime_ns)
    return (found.st_dev, found.st_ino, *changes)


def _write_command(script: Script, call: Call, rulings: Sequence[Ruling]) -> str:
    """Write a plain command with its programs pinned."""
    reads = {id(ruling.fact) for ruling in rulings if ruling.reads}
    commands = defaultdict[int, list[Command]](list)
    for each in call.commands:
        commands[each.number].append(each)
    pins, numbers = dict[str, str](), count()

    def pin(command: SimpleCommand) -> SimpleCommand:
        words, settings = list(command.words), command.settings
        for fact in commands[next(numbers)]:
            if id(fact) in reads and fact.argv[0] == "git":  # it must not run what it reads
                words[fact.offset :] = add_overrides(fact.argv)
                settings = (*settings, *GIT_SETTINGS)
            if fact.file and (fact.outer is None or fact.outer.lets_shell_run):
                pins[fact.argv[0]] = fact.file
            elif fact.file:  # the program that runs it would look it up again
                words[fact.offset] = fact.file
        return replace(command, words=tuple(words), settings=settings)

    pinned = tuple(
        structs.replace(pipeline, commands=tuple(map(pin, pipeline.commands)))
        for pipeline in script
    )
    return render(pinned, pins)
