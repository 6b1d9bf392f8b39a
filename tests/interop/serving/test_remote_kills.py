"""Agents elsewhere, and processes on either side that are killed in the middle of their work."""

import subprocess
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import trio

from greenroom.core import Message, TextDelta
from tests.interop.serving.killable import run_plan
from tests.interop.serving.remotes import here, told_text
from tests.interop.serving.services import until, write_tokens
from tests.warm_python import start_warm

ROOT = Path(__file__).parents[3]


@contextmanager
def running(*words):
    """Run a program for the block, and kill it at the end at the latest."""
    arguments = ["-m", "tests.interop.serving.killable", *map(str, words)]
    with start_warm(arguments, ROOT, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def serving(folder, port):
    with running("serve", folder, port) as process:
        yield process, process.stdout.readline().decode().strip()


async def test_a_server_that_is_killed_asks_again_and_says_what_it_has_cut_off(tmp_path):
    write_tokens(tmp_path / "tokens")
    with trio.fail_after(60), serving(tmp_path, 0) as (first, link):
        async with here(link, agent="asker") as asks, here(link, agent="slow") as works:
            question = await asks[0].send_input("go")
            work = await works[0].send_input("work")

            async def find():
                return told_text(works[1]) and await asks[0].pending()

            (before,) = await until(find)
            first.kill()
            first.wait()
            with serving(tmp_path, link.rpartition(":")[2]):
                result = await works[0].answer(work)
                assert (str(result.status), result.kind) == ("failed", "RemoteError")
                assert "was cut off by the end of its agent" in result.error
                assert (await works[0].ask("be quick")).text == "done"
                (after,) = await asks[0].pending()
                assert after == before  # it was not asked twice
                await asks[0].respond_permission(after.request_id, "allow", message="fine")
                assert (await asks[0].answer(question)).text == "allow: fine by ann"
                said = [each.text for each in await asks[0].history() if each.role == "user"]
                assert said == ["go"]


async def test_a_plan_that_is_killed_has_its_far_work_done_once(serve, tmp_path):
    given, go_on, begun = Counter(), trio.Event(), trio.Event()

    async def worker(agent):
        async for message in agent.inputs():
            async with agent.turn(message):
                given[message.text.splitlines()[0]] += 1
                await agent.send(TextDelta("working"))
                if "second" in message.text:
                    begun.set()
                    await go_on.wait()
                agent.session.add_message(Message.assistant("did it"))

    async with serve(agents={"worker": worker}) as service:
        with running("plan", tmp_path, service.link) as process:
            await begun.wait()
            process.kill()
            await trio.to_thread.run_sync(process.wait)
            go_on.set()
            run = await run_plan(tmp_path, service.link)
        assert [str(run.state(each).status) for each in ("first", "second")] == ["completed"] * 2
        assert run.state("second").result == "did it"
        assert sorted(given.values()) == [1, 1], given
