"""The jobs of one supervisor: what takes time, each in a task of its home's nursery."""

from typing import TYPE_CHECKING, TypeVarTuple, Unpack

import trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from greenroom.runtime.supervision.home import Home

Ts = TypeVarTuple("Ts")


class Jobs:
    """Starts jobs, and calls all of them off together."""

    def __init__(self, home: "Home", name: str) -> None:
        """Start with none; the name is that of their tasks."""
        self._home = home
        self._name = name
        self._scopes: set[trio.CancelScope] = set()

    def launch(self, job: "Callable[[Unpack[Ts]], Awaitable[None]]", *args: *Ts) -> None:
        """Start a job; it can be called off before it has run at all."""
        scope = trio.CancelScope()
        self._scopes.add(scope)
        self._home.nursery.start_soon(self._run, scope, job, args, name=self._name)

    async def _run(
        self,
        scope: trio.CancelScope,
        job: "Callable[[Unpack[Ts]], Awaitable[None]]",
        args: tuple[*Ts],
    ) -> None:
        with scope:
            await trio.lowlevel.checkpoint_if_cancelled()
            await job(*args)
        self._scopes.discard(scope)

    def call_off(self) -> None:
        """Cancel all of them, the one that calls included; what is launched later is not meant."""
        for scope in self._scopes:
            scope.cancel()
        self._scopes.clear()
