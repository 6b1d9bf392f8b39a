"""The permission manager: it holds rules, and decides by them."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self
from weakref import ref

import msgspec

from greenroom.core import AgentContext, RuleDecision
from greenroom.core._internal import Remember, SandboxReport
from greenroom.permissions import judging
from greenroom.permissions.grants import ANSWER, GrantKeeper, encode_grants, read_grants
from greenroom.permissions.modes import PermissionMode, Sandboxed, check_mode
from greenroom.permissions.rule import Audience, PermissionRule, RuleScope, sort_key
from greenroom.permissions.rule_file import check_rule, read_rules, write_rules

if TYPE_CHECKING:
    from greenroom.git._internal import GitAnswer
    from greenroom.permissions.call import AnyTool, Call
    from greenroom.permissions.evaluator import Ruling
    from greenroom.permissions.explanation import Explanation
    from greenroom.permissions.judgement import Judgement
    from greenroom.permissions.read_screen import Layer
    from greenroom.permissions.scopes import RuleIndex

_logger = logging.getLogger("greenroom.permissions")

MAX_INDEXES = 256  # rule indexes that one manager keeps, for different tools and agents
_EXAMPLES = "write PermissionRule.allow_tool('Read') or PermissionRule.parse('Bash(ls *)', 'allow')"


class PermissionStatistics(msgspec.Struct, frozen=True):
    """A snapshot of one permission manager.

    Attributes:
        rules: how many rules of its own each scope has; scopes without rules are left out.
        inherited: how many rules the managers above it have.
    """

    rules: Mapping[RuleScope, int]
    inherited: int


class _Binding(NamedTuple):
    """A session whose remembered answers a manager applies, and what was read from it.

    The reference is weak, so a manager that serves many sessions keeps none of them alive.
    """

    session: ref[GrantKeeper]
    root: str
    grants: tuple[dict[str, object], ...]


class PermissionManager:
    """Rules, and the decisions that follow from them.

    It neither asks anyone nor runs anything. On disk it looks only at where symbolic links lead
    and which files a pattern matches. A call that no rule is about is asked about.

    Example:
        >>> manager = PermissionManager([PermissionRule.allow_tool("Read")])
        >>> context = AgentContext(session_id="s-1", agent_type="coder")
        >>> str(manager.check("Read", {"file_path": "README.md"}, context))
        'allow'
        >>> str(manager.check("Write", {"file_path": "README.md", "content": ""}, context))
        'ask'
    """

    def __init__(
        self,
        rules: Iterable[PermissionRule] = (),
        *,
        mode: PermissionMode = "default",
        sandboxed: Sandboxed = "ask",
        read_only: bool = True,
    ) -> None:
        """Start with some rules.

        Args:
            rules: the rules.
            mode: how open questions are settled; see `PermissionMode`.
            sandboxed: how open questions about sandboxed commands are settled; see `Sandboxed`.
            read_only: whether commands that only read inside the workspace are allowed if no rule
                is about them.

        Raises:
            RuleFileError: two rules of one id, or a rule whose examples it does not meet.
            ConfigurationError: an unknown mode, or a `sandboxed` other than "ask" and "allow".
        """
        check_mode(mode, sandboxed)
        self._mode: PermissionMode | None = mode  # None follows the manager above
        self.sandboxed: Sandboxed = sandboxed
        self.read_only = read_only
        self._rules: tuple[PermissionRule, ...] = ()
        self._parent: PermissionManager | None = None
        # The one that it wraps: see `beneath` and `with_consents`.
        self._own: PermissionManager | None = None
        self._consents = frozenset[str]()
        self._spawner: Audience | None = None
        self._pass_grants = False
        self._bound: dict[str, _Binding] = {}
        self.add_rules(rules)

    @property
    def mode(self) -> PermissionMode:
        """How open questions are settled; a change counts from the next call on, for `child` too.

        Raises:
            ConfigurationError: there is no such mode; nothing has changed.
        """
        if self._mode is None:
            return self._parent.mode if self._parent else "default"
        return self._mode

    @mode.setter
    def mode(self, mode: PermissionMode) -> None:
        check_mode(mode)
        self._mode = mode

    @property
    def rules(self) -> tuple[PermissionRule, ...]:
        """Its own rules, in the order in which they are tried."""
        return self._rules

    @property
    def has_expressions(self) -> bool:
        """Whether a rule that applies here has a regular expression, which may take a while."""
        return any(manager._has_expressions for manager in self._list_lineage())

    def describe_state(self) -> tuple[object, ...] | None:
        """Return what decides on a call without effects, besides the call itself.

        None where it may decide otherwise the next time: a rule expires or has a condition in
        Python, or a class of one's own judges.
        """
        lineage = self._list_lineage()
        if any(each._may_change or type(each) is not PermissionManager for each in lineage):
            return None
        return tuple(
            (manager._rules, manager.mode, manager.sandboxed, manager.read_only)
            for manager in lineage
        )

    def statistics(self) -> PermissionStatistics:
        """Return how many rules there are, by scope."""
        inherited = sum(len(manager._rules) for manager in self._list_lineage()[1:])
        return PermissionStatistics(Counter(rule.scope for rule in self._rules), inherited)

    def add_rule(self, rule: PermissionRule) -> None:
        """Add a rule, which applies from the next call on; a rule that is there already is ignored.

        Raises:
            RuleFileError: another rule has this id, or the rule does not meet its own examples.
        """
        self.add_rules((rule,))

    def add_rules(self, rules: Iterable[PermissionRule]) -> None:
        """Add several rules, or none of them if any is invalid.

        Raises:
            TypeError: one of them is not a rule.
            RuleFileError: as `add_rule`.
        """
        if isinstance(rules, PermissionRule):
            raise TypeError(f"the rule {rules.id!r} is alone: write a list, [rule]")
        known = {rule.id: rule for rule in self._rules}
        added = list[PermissionRule]()
        for rule in rules:
            if not isinstance(rule, PermissionRule):
                raise TypeError(f"{rule!r} is not a rule: {_EXAMPLES}")
            if known.get(rule.id) != rule:
                check_rule(rule, known)
                known[rule.id] = rule
                added.append(rule)
        self._set_rules((*self._rules, *added))

    def remove_rules(self, rules: Iterable[PermissionRule]) -> None:
        """Take rules out that were added here; those that are not there are ignored."""
        gone = {rule.id for rule in rules}
        self._set_rules(rule for rule in self._rules if rule.id not in gone)

    def _set_rules(self, rules: Iterable[PermissionRule]) -> None:
        """Replace the rules."""
        ordered = self._rules = tuple(sorted(rules, key=sort_key))
        self._index = lru_cache(MAX_INDEXES)(lambda *whose: judging.choose_rules(ordered, *whose))
        self._has_expressions = any(rule.matcher.regex for rule in self._rules)
        self._may_change = any(rule.matcher.predicate or rule.expires for rule in self._rules)

    def add_session_rule(self, session_id: str, rule: PermissionRule) -> None:
        """Add a rule that applies to one session only, until `clear_session_rules`.

        Raises:
            RuleFileError: as `add_rule`.
        """
        self.add_rule(rule.within(session_id))

    def remove_session_rule(self, session_id: str, rule_id: str) -> bool:
        """Forget one rule of a session; return whether there was one.

        If the session is bound, it no longer remembers an answer that is forgotten so.
        """
        kept = [each for each in self._rules if each.session != session_id or each.id != rule_id]
        if len(kept) == len(self._rules):
            return False
        self._set_rules(kept)
        session, binding = self._find_session(session_id), self._bound.get(session_id)
        if session is not None and binding is not None:
            grants, where = session.conversation.grants, (session_id, binding.root)
            read = ((each, read_grants([each], *where)[0]) for each in grants)
            left = [each for each, rules in read if rule_id not in [rule.id for rule in rules]]
            if len(left) < len(grants):
                session.conversation.revoke_grants()
                session.conversation.add_grants(left)
                self.bind_session(session, binding.root)
        return True

    def clear_session_rules(self, session_id: str) -> None:
        """Forget every rule of a session, remembered answers included.

        If the session is bound, its answers are gone for good once it is saved.
        """
        session = self._find_session(session_id)
        if session is not None:
            session.conversation.revoke_grants()
        self._set_rules(rule for rule in self._rules if rule.session != session_id)

    def bind_session(self, session: GrantKeeper, root: str | Path) -> tuple[str, ...]:
        """Apply the answers that a session remembers, and store further ones in it.

        `run_tools` calls it before every call; it reads only what has changed. An answer applies as
        long as the session has it: a rewind may take it away. An allowance applies only in the
        folder `root` that it was given for, and while the session is in use. An answer that can't
        be read, or that says more than an answer may, is ignored; if it may have been a denial,
        every call of the session is asked about instead.

        Returns:
            A line for each answer that is ignored; empty if nothing was read again.
        """
        binding = _Binding(ref(session), str(root), session.conversation.grants)
        id_, grants = session.session_id, binding.grants
        if all(manager._bound.get(id_) == binding for manager in self._list_lineage()):
            return ()
        # Most sessions have none.
        rules, notes = read_grants(grants, id_, binding.root) if grants else ((), ())
        for manager in self._list_lineage():
            manager._forget_answers(id_)
            manager._bound[id_] = binding
        self._add_answers(rules)
        return notes

    def _find_session(self, session_id: str) -> GrantKeeper | None:
        """Return the session that was last bound under this id, if it is still alive."""
        binding = self._bound.get(session_id)
        return binding.session() if binding else None

    def _forget_answers(self, session_id: str) -> None:
        """Drop the answers of a session, and the allowances of sessions that are gone.

        Denials of the latter stay: a detached subagent may outlive the session they were given in.
        """
        gone = {id_ for id_, binding in self._bound.items() if binding.session() is None}
        for each in gone:
            del self._bound[each]

        def is_old(rule: PermissionRule) -> bool:
            is_over = rule.session in gone and rule.decision is RuleDecision.ALLOW
            return rule.created_by == ANSWER and (is_over or rule.session == session_id)

        self._set_rules(rule for rule in self._rules if not is_old(rule))

    def check(
        self,
        tool: "AnyTool",
        input: Mapping[str, object],  # noqa: A002 - the word that models and tools use
        context: AgentContext,
        *,
        sandbox: SandboxReport | None = None,
        git: "Mapping[str, GitAnswer] | None" = None,
    ) -> RuleDecision:
        """Decide on a call: allow, deny or ask.

        Args:
            tool: a tool, or its exact name. A bare name has a category and effects only if it is
                that of a built-in tool.
            input: what the model sent, decoded.
            context: the agent that calls, and its workspace.
            sandbox: the report on what holds this very call, from `RegisteredTool.examine_sandbox`.
            git: what git said of the repositories around folders; without it, no git command is
                known to only read.
        """
        return self.judge(tool, input, context, sandbox=sandbox, git=git).decision

    def judge(
        self,
        tool: "AnyTool",
        input: Mapping[str, object],  # noqa: A002 - the word that models and tools use
        context: AgentContext,
        *,
        sandbox: SandboxReport | None = None,
        git: "Mapping[str, GitAnswer] | None" = None,
    ) -> "Judgement":
        """Decide on a call as `check` does, and return the reason and a digest with the decision.

        Args:
            tool: as for `check`.
            input: as for `check`.
            context: as for `check`.
            sandbox: as for `check`.
            git: as for `check`. `Judgement.missing_answers` names the folders that it lacks:
                ask there by `GitAnswers.ask`, and judge the call again.
        """
        try:
            call = judging.read_call(tool, input, context, sandbox, git)
            return self._judge(call, Audience.of(context))
        except Exception as error:  # an error of ours must not end the turn, nor allow anything
            name = tool if isinstance(tool, str) else tool.name
            _logger.exception("a call of %s could not be judged", name)
            return judging.judge_failure(name, input, context, error)

    def explain(
        self,
        tool: "AnyTool",
        input: Mapping[str, object],  # noqa: A002 - the word that models and tools use
        context: AgentContext,
        *,
        sandbox: SandboxReport | None = None,
        git: "Mapping[str, GitAnswer] | None" = None,
        files: bool = True,
    ) -> "Explanation":
        """Decide on a call as `check` does, and explain the decision.

        Args:
            tool: as for `check`.
            input: as for `check`.
            context: as for `check`.
            sandbox: as for `check`.
            git: as for `check`.
            files: whether to read the files of commands that are asked about, for the digest,
                which may take a while. If not, `Explanation.with_files` can do so later.
        """
        found = judging.explain(self.judge(tool, input, context, sandbox=sandbox, git=git))
        return found.with_files() if files and found.decision is RuleDecision.ASK else found

    def screen_reads(
        self,
        tool: "AnyTool",
        input: Mapping[str, object],  # noqa: A002 - the word that models and tools use
        context: AgentContext,
        folder: str,
    ) -> Callable[[str], str] | None:
        """Say which of the files that an allowed call finds below a folder it may not read.

        Each file is judged as a call of this tool that reads just that file. `run_tools` hands this
        to the tool as `AgentContext.screen_reads`. It looks at the disk, for where links lead.

        Args:
            tool: as for `check`.
            input: as for `check`; what was asked about this call has been answered.
            context: as for `check`.
            folder: where the call searches, absolute or relative to the working directory.

        Returns:
            A function of the path of a file from that folder, with `/` and without links. It
            returns what a rule does about the file: "denies", "asks about", or "" if it may be
            read. None if that holds for every file.

        Raises:
            ValueError: the folder is not usable as a path.

        Example:
            >>> rules = [PermissionRule.allow_tool("Grep"), PermissionRule.deny_path("secrets/**")]
            >>> context = AgentContext(session_id="s-1", agent_type="coder")
            >>> call = ("Grep", {"pattern": "key"}, context)
            >>> screen = PermissionManager(rules).screen_reads(*call, ".")
            >>> screen("secrets/key.pem"), screen("src/key.py")
            ('denies', '')
        """
        call = judging.read_call(tool, input, context)
        return judging.screen_files(
            call, self._list_layers(call, Audience.of(context)), context, folder
        )

    def child(
        self,
        rules: Iterable[PermissionRule] = (),
        *,
        context: AgentContext | None = None,
        pass_grants: bool = False,
    ) -> "PermissionManager":
        """Make the manager of a subagent, which never allows what this one does not.

        The effective decision is the stricter of its own and this manager's; without rules of its
        own, this manager decides. Its mode is this manager's, also once that changes. What is
        denied to the agent that spawns it is denied to the subagent as well. What is allowed only
        to that agent's session or type, such as an answer for the session, is not allowed to the
        subagent unless `pass_grants` passes it on.

        Args:
            rules: the subagent's own rules.
            context: the agent that spawns it; without it, no rule for one session or agent type
                is passed down.
            pass_grants: whether what is allowed to that agent's session or type is also allowed to
                the subagent, and to those below it as long as each passes it on.

        Raises:
            RuleFileError: as `add_rule`.
        """
        child = PermissionManager(rules, sandboxed=self.sandboxed, read_only=self.read_only)
        child._mode, child._parent = None, self
        child._spawner = Audience.of(context) if context else self._spawner
        child._pass_grants = pass_grants
        return child

    def beneath(
        self,
        caller: "PermissionManager",
        *,
        context: AgentContext,
        consents: Iterable[str] = (),
    ) -> "PermissionManager":
        """Make the manager of an agent with this manager that another agent has called.

        The effective decision is the stricter of this manager's and the caller's, as with `child`.
        The program itself has consented to the tools in `consents`: the caller's rules apply to
        them too, but if it has none about a call, this manager decides.

        Args:
            caller: the manager of the calling agent.
            context: the calling agent; what is denied to its session or type is denied here, too.
            consents: names of tools.
        """
        made = PermissionManager(mode=self.mode, sandboxed=self.sandboxed, read_only=self.read_only)
        made._own, made._parent, made._spawner = self, caller, Audience.of(context)
        made._consents = frozenset(consents)
        return made

    def with_consents(self, consents: Iterable[str]) -> "PermissionManager":
        """Make the manager of an agent whose program has consented to these tools by passing them.

        They are allowed where this manager would ask only since no rule is about the call.

        Example:
            >>> manager = PermissionManager([PermissionRule.deny_path("secrets/**")])
            >>> context = AgentContext(session_id="s-1", agent_type="demo")
            >>> str(manager.with_consents(["roll"]).check("roll", {}, context))
            'allow'
        """
        names = sorted(consents)
        if not names:
            return self
        rule = PermissionRule.allow_tool(
            *names, id="own functions", description="the program has passed them"
        )
        made = PermissionManager([rule], sandboxed=self.sandboxed, read_only=self.read_only)
        made._own, made._consents = self, frozenset(names)
        return made

    def remember(
        self,
        explanation: "Explanation",
        decision: RuleDecision,
        lifetime: Remember,
        context: AgentContext,
        *,
        prefix: bool = False,
    ) -> tuple[PermissionRule, ...]:
        """Turn an answer into the rules that the explanation proposed, in the user scope.

        They apply here and in the managers above from the next call on. Who asked has
        to save those that last longer than the session.

        Args:
            explanation: what was asked.
            decision: the answer, allow or deny.
            lifetime: "session" lasts as long as the session, which stores the rules if it is
                bound; "project" and "always" last longer.
            context: the agent that wanted to make the call.
            prefix: of an allowance, whether to add `explanation.prefixes`, if it has any, in place
                of `explanation.remembers`.

        Returns:
            The rules; empty if none is narrow enough.
        """
        allowed = (prefix and explanation.prefixes) or explanation.remembers
        rules = allowed if decision is RuleDecision.ALLOW else explanation.forbids
        session, root = None, context.workspace.root
        if lifetime == "session":
            session = self._find_session(context.session_id)
            rules = tuple(rule.within(context.session_id) for rule in rules)
        if session is None:
            self._add_answers(rules)
        else:
            session.conversation.add_grants(encode_grants(rules, root))
            self.bind_session(session, root)
        return rules

    def _add_answers(self, rules: tuple[PermissionRule, ...]) -> None:
        for manager in self._list_lineage():
            # One without rules leaves decisions to those above; with an answer it would decide.
            if manager._rules or manager._parent is None:
                manager.add_rules(rules)

    def _list_lineage(self) -> "tuple[PermissionManager, ...]":
        """List this manager, the one that it wraps (see `beneath`), and those above it."""
        own = self._own._list_lineage() if self._own else ()
        return (self, *own, *self._parent._list_lineage()) if self._parent else (self, *own)

    @classmethod
    def load_from_file(
        cls, path: str | Path, *, mode: PermissionMode = "default", read_only: bool = True
    ) -> Self:
        """Make a manager with the rules of a file.

        Raises:
            RuleFileError: the file can't be read or used; it names line, column and field.
        """
        return cls(read_rules(path), mode=mode, read_only=read_only)

    def save_to_file(self, path: str | Path) -> None:
        """Write the rules to a file that only its owner may read, all or nothing.

        Raises:
            RuleFileError: a rule has a condition in Python, which no file can hold, or the file
                can't be written.
        """
        write_rules(path, self.rules)

    def _judge(self, call: "Call", audience: Audience) -> "Judgement":
        """Decide for an agent, by the strictest of these rules and those above."""
        found = list["Judgement"]()
        for layer in self._list_layers(call, audience):
            each = judging.Judgement.of(call, layer.apply(call, layer.rules))
            is_weak = layer.only_denials and each.decision is not RuleDecision.DENY
            if not is_weak and not (layer.only_ruled and _is_unruled(each)):
                found.append(each)
        return max(found, key=lambda each: judging.STRICTNESS[each.decision])

    def _apply(self, call: "Call", rules: "RuleIndex") -> "tuple[Ruling, ...]":
        """Apply rules, then the mode."""
        return judging.apply_mode(
            judging.evaluate(call, rules),
            call,
            self.mode,
            sandboxed=self.sandboxed,
            read_only=self.read_only,
        )

    def _list_layers(self, call: "Call", audience: Audience) -> "Iterator[Layer]":
        """List all rules that bind an agent; what is denied to the one that spawned it, does."""
        yield from self._list_layers_by_rules(call, audience)
        if self._parent is not None and self._spawner is not None:
            above = self._parent._list_layers(call, self._spawner)
            yield from (layer._replace(only_denials=True) for layer in above)

    def _list_layers_by_rules(self, call: "Call", audience: Audience) -> "Iterator[Layer]":
        """List these rules and those above, as far as they are about this audience."""
        consented, is_root = call.tool in self._consents, self._parent is None
        # Consent fills the gaps of the rules above it: `beneath` a caller those of the caller, else
        # those of the manager that it wraps, and then its own rule allows the call.
        if self._own is not None:
            for layer in self._own._list_layers(call, audience):
                yield layer._replace(only_ruled=layer.only_ruled or (consented and is_root))
        if (self._rules or is_root) if self._own is None else (consented and is_root):
            yield judging.Layer(self._index(call.tool, call.category, audience), self._apply)
        if self._parent is not None:
            spawner = self._spawner
            below = audience.below(spawner, pass_grants=self._pass_grants) if spawner else audience
            for layer in self._parent._list_layers_by_rules(call, below):
                yield layer._replace(only_ruled=layer.only_ruled or consented)


def _is_unruled(found: "Judgement") -> bool:
    """Return whether a call is asked about only because no rule is about it."""
    asked = (ruling for ruling in found.rulings if ruling.decision is not RuleDecision.ALLOW)
    return found.decision is RuleDecision.ASK and not any(each.rule or each.doubt for each in asked)
