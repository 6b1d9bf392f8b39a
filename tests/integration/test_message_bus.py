"""Messages between agents: to one of them by name, and to all who have joined."""

import pytest
from trio.testing import wait_all_tasks_blocked

from greenroom import AgentRuntime, AgentSession, InMemoryStore
from greenroom.core._internal import serde
from greenroom.flow import AgentMessage, TaskRequest, Topic


@pytest.mark.checkpoint("5.2 messages reach the agents that have joined")
async def test_message_delivery():
    bus, heard = Topic[AgentMessage]("bus"), []

    async def worker(agent):
        async for message in agent.inputs():
            name = agent.context.name
            heard.append((name, AgentMessage.of(message)))

    request = AgentMessage(
        "lead", "writer", content=TaskRequest("t1", "Write."), correlation_id="c1"
    )
    to_all = AgentMessage("lead", kind="greeting", content={"text": "hello"})
    async with AgentRuntime(InMemoryStore()) as runtime:
        names = ("researcher", "writer", "idler")
        handles = {name: runtime.spawn(AgentSession.new(name), worker) for name in names}
        for handle in handles.values():
            bus.join(handle)
        assert (await bus.publish(request)).delivered == (handles["writer"].session_id,)
        await wait_all_tasks_blocked()
        bus.leave(handles["idler"])
        assert len((await bus.publish(to_all)).delivered) == 2
        await wait_all_tasks_blocked()
    assert heard[0] == ("writer", request)
    assert sorted(name for name, message in heard[1:] if message == to_all) == [
        "researcher",
        "writer",
    ]
    assert serde.decode(serde.encode(request), AgentMessage) == request
    assert request.payload == TaskRequest("t1", "Write.")
    assert to_all.payload is None
