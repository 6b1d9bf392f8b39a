"""Agents on several machines: hosts, where they run, and a mailbox that outlives them.

What has to be true is kept by one PostgreSQL server, beside the sessions: which hosts there are,
which agent runs on which of them (`places`), and what was sent to it (`mailbox`). `Cluster` reads
and changes that from anywhere. A `Host` runs the agents that are placed on it, and takes over those
of hosts that are gone (`hosted_agent` is its part for one agent). A `RemoteAgent` is what a program
holds of an agent, wherever it runs.
"""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)
