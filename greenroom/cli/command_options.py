"""What the user asked for: the options of each command but those of a run.

They are apart from those since the input line of a run waits for all that is loaded before it.
"""

from datetime import date

from greenroom.cli.options import CostGroup, Options, WrittenFormat


class SessionsOptions(Options, frozen=True, kw_only=True):
    """The options of `greenroom sessions`; no verb uses all of them.

    Attributes:
        ids: the sessions: whole ids, or the beginnings of some.
        here: whether only sessions of the working directory are meant.
        all: whether archived sessions and those of subagents are meant as well.
        text: the text to search for.
        limit: the most sessions to show, or None for the default.
        last: the most messages to show, counted from the end; None for all.
        branch: the number of a branch, or None for the current one.
        at: how many messages a fork begins with, or None for all.
        to: how many messages a rewind keeps.
        files: whether a rewind restores files as well.
        yes: whether nothing is asked before something is removed.
        format: the format of an export, or None where the name of its file says it.
        output: the file for an export, or None for standard output.
        force: whether that file may be replaced.
        file: the file to import; "-" is standard input.
        keep_id: whether an import keeps the id that it had.
        undo: whether sessions come back from the archive.
        source: where sessions are copied from.
        target: where they are copied to.
        older: after how many days without a change they expire.
    """

    ids: tuple[str, ...] = ()
    here: bool = False
    all: bool = False
    text: str = ""
    limit: int | None = None
    last: int | None = None
    branch: int | None = None
    at: int | None = None
    to: int = 0
    files: bool = False
    yes: bool = False
    format: WrittenFormat | None = None
    output: str | None = None
    force: bool = False
    file: str = "-"
    keep_id: bool = False
    undo: bool = False
    source: str = ""
    target: str = ""
    older: int = 0

    @property
    def session_id(self) -> str:
        """The session, for a verb that takes one."""
        return self.ids[0]


class PermissionsOptions(Options, frozen=True, kw_only=True):
    """The options of `greenroom permissions`; no verb uses all of them.

    Attributes:
        text: the command that is judged, or None where `input` says it.
        tool: the tool that would be called.
        input: the call's input as JSON, or None.
        file: the file of calls, or a rule file; "-" is standard input.
        session_id: the session whose decisions are shown, or a beginning of its id.
        last: the most decisions to show, counted from the end; None for all.
        decision: what a rule that is added decides.
        rule: the rule that is added or removed; or the name of one to remove.
        project: whether the project's file is meant, not the user's.
    """

    text: str | None = None
    tool: str = "Bash"
    input: str | None = None
    file: str = "-"
    session_id: str = ""
    last: int | None = None
    decision: str = ""
    rule: str = ""
    project: bool = False


class ModelsOptions(Options, frozen=True, kw_only=True):
    """The options of `greenroom models`; `name` is a model or a provider, or None for all."""

    name: str | None = None


class MemoryOptions(Options, frozen=True, kw_only=True):
    """The options of `greenroom memory`: the ids of entries, and the most that are listed."""

    ids: tuple[str, ...] = ()
    limit: int = 30


class PlanOptions(Options, frozen=True, kw_only=True):
    """The options of `greenroom plan`: the id of one session, and whether its plan is drawn."""

    ids: tuple[str, ...] = ()
    mermaid: bool = False


class ConfigOptions(Options, frozen=True, kw_only=True):
    """The options of `greenroom config`.

    Attributes:
        name: the setting that is set or unset.
        value: its new value, as JSON or as it is.
        project: whether the project's file is meant, not the user's.
    """

    name: str = ""
    value: str = ""
    project: bool = False


class TraceOptions(Options, frozen=True, kw_only=True):
    """The options of `greenroom trace` and `greenroom diagnose`.

    Attributes:
        ids: the id of one session, or its beginning.
        html: the file for a page, or None.
        tree: whether the traces of subagents are shown as well.
    """

    ids: tuple[str, ...] = ()
    html: str | None = None
    tree: bool = True


class CostOptions(Options, frozen=True, kw_only=True):
    """The options of `greenroom cost`.

    Attributes:
        session_id: the session that is meant with all below it, or a beginning of its id; None for
            all sessions.
        by: what the rows are about, or None for the default.
        since: the first day that counts, or None for all.
    """

    session_id: str | None = None
    by: CostGroup | None = None
    since: date | None = None


class PromptOptions(Options, frozen=True, kw_only=True):
    """The options of `greenroom prompt`.

    Attributes:
        ids: the id of one session, or its beginning.
        number: which request of it, from 1.
        sections: whether only the size of its parts is shown.
        times: how often it is sent again.
    """

    ids: tuple[str, ...] = ()
    number: int = 1
    sections: bool = False
    times: int = 1


class RecordOptions(Options, frozen=True, kw_only=True):
    """The options of `greenroom drift` and `greenroom export-test`.

    Attributes:
        ids: the id of one session, or its beginning.
        agent: where the agent is imported from, as MODULE:NAME.
        output: the file for a test, or None for standard output.
        force: whether that file may be replaced.
    """

    ids: tuple[str, ...] = ()
    agent: str = ""
    output: str | None = None
    force: bool = False


class ServeOptions(Options, frozen=True, kw_only=True):
    """The options of `greenroom serve`.

    Attributes:
        served: agents as MODULE:NAME, none for the coding agent; or "token", a name and a role.
        host: the address to listen at.
        port: the port; 0 takes a free one.
        token_file: the file of tokens, or None for the user's own, if there is one.
        owner: the name that has the sessions which belong to nobody, or None.
        allowed_hosts: more names under which the server is asked for.
        allowed_origins: the origins of other sites whose pages may use it.
        away: seconds after the last operator for which a question waits.
        limits: bounds of the server, each as NAME=N.
        grace: seconds for what is in hand when it ends.
        audit: the file for the audit, or None.
        page: whether browsers get a page.
        ag_ui: whether clients of AG-UI may run the agents.
        a2a: whether clients of A2A may run the agents.
        otel: whether spans are exported by OpenTelemetry.
        cluster: whether the hosts of the cluster are shown.
    """

    served: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    port: int = 0
    token_file: str | None = None
    owner: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    away: float = 300.0
    limits: tuple[str, ...] = ()
    grace: float = 3.0
    audit: str | None = None
    page: bool = True
    ag_ui: bool = False
    a2a: bool = False
    otel: bool = False
    cluster: bool = False


class AttachOptions(Options, frozen=True, kw_only=True):
    """The options of `greenroom attach`.

    Attributes:
        url: the address of the server; what follows a # is its token.
        session: the id of a session there, or None for a new one.
        agent: the name of the agent for a new session, or None for the first.
        token_file: the file that holds the token, or None.
    """

    url: str = ""
    session: str | None = None
    agent: str | None = None
    token_file: str | None = None

    def __repr__(self) -> str:
        """Leave out the address, for the token."""
        return f"<options of attach: {', '.join(sorted(self.given)) or 'none'}>"

    def __rich_repr__(self) -> list[tuple[str, object]]:
        """Name no fields where rich prints it."""
        return []


class HostOptions(Options, frozen=True, kw_only=True):
    """The options of `greenroom host` and `greenroom hosts`.

    Attributes:
        types: the types of agents to run, each as MODULE:NAME.
        name: what people call the host; empty for the machine's name.
        capabilities: what it offers.
        max_agents: how many agents it takes.
        grace: seconds for open turns when it ends.
        bind: where it answers, as HOST:PORT.
        certificate: the file of the certificate with which it answers over TLS.
        key: the file of the certificate's private key.
        insecure: whether it may answer other machines without TLS.
        patience: seconds of silence after which a host counts as gone.
    """

    types: tuple[str, ...] = ()
    name: str = ""
    capabilities: tuple[str, ...] = ()
    max_agents: int = 1000
    grace: float = 5.0
    bind: str = "127.0.0.1:0"
    certificate: str | None = None
    key: str | None = None
    insecure: bool = False
    patience: float = 10.0


class TreeOptions(Options, frozen=True, kw_only=True):
    """The options of `greenroom tree`.

    Attributes:
        cluster: whether the agents on hosts are meant, not those of this machine.
    """

    cluster: bool = False


class AuditOptions(Options, frozen=True, kw_only=True):
    """The options of `greenroom audit`.

    Attributes:
        file: the audit.
        head: a hash that was the last one, or None.
        key_file: the file that holds the key, or None.
    """

    file: str = ""
    head: str | None = None
    key_file: str | None = None


class WatchOptions(Options, frozen=True, kw_only=True):
    """The options of `greenroom watch`.

    Attributes:
        ids: the id of one session, or its beginning.
        web: whether it is shown in a browser.
    """

    ids: tuple[str, ...] = ()
    web: bool = False


class CompletionOptions(Options, frozen=True, kw_only=True):
    """The options of `greenroom completion` and of `greenroom complete`, which its script runs.

    Attributes:
        shell: one of `SHELLS`.
        line: the line up to the cursor.
        word: the part of its last word that the shell replaces.
    """

    shell: str = ""
    line: str = ""
    word: str | None = None


class MCPOptions(Options, frozen=True, kw_only=True):
    """The options of `greenroom mcp`.

    Attributes:
        name: the server that is meant; empty for all.
        place: the command or the URL of a server that is added.
        words: the arguments of the command.
        env: variables that it gets, as NAME=VALUE.
        header: headers that each request to a URL carries, as NAME: VALUE.
        project: whether the project's file is meant, not the user's.
        http: where `serve` listens, as HOST:PORT; None for standard streams.
        token_file: the file of tokens, or None for the one in the user's folder.
        allowed_hosts: names in the header `Host` that are ours, besides those of this machine.
        allowed_origins: origins of other sites whose pages may call the tools.
        keyring: whether a new login is kept in the keyring of the system.
        agent: whether `serve` offers the coding agent besides the tools.
    """

    name: str = ""
    place: str = ""
    words: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    project: bool = False
    http: str | None = None
    token_file: str | None = None
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    keyring: bool = False
    agent: bool = True
