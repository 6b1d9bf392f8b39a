"""Greenroom: an actor-model runtime for AI agents, on trio.

The packages; each imports only from those below it:

    cli, testing       the terminal program; what you import in your own tests
    flow               work of several steps or agents that lasts: plans, workflows, teams
    agents             Agent, stream_reply, run_tools, coder: where everything below meets
    memory             what a model sees of a long conversation, and what outlives it
    llm, runtime       talking to models; the actor kernel, which knows no model
    resilience         retry, breaker, limits, budgets, usable on any code
    export             a session as Markdown, HTML or JSON
    session            conversations that outlive the process
    permissions        rules on what a tool call may do
    tools              what agents can do
    net                the one place that speaks HTTP
    shell, programs    reading commands: what one would do, before it runs
    sandbox            confined commands, and processes that leave nothing behind
    git, schemas       what a repository names; values checked against JSON Schemas
    fs, threads        durable and atomic files; the threads that work on files
    core               the vocabulary: messages, chunks, states, errors; no I/O

The names that most programs need can be imported from here, and load when they are first used:
agents, their handles, messages and chunks, sessions, tools, permissions, models, and the errors
that most programs catch. Everything else is imported from its package:
`from greenroom.resilience import Retry`. What a package keeps for the others is in its `_internal`.
"""

from logging import NullHandler, getLogger

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)

# Silent unless the application asks for our log.
getLogger("greenroom").addHandler(NullHandler())
