"""A workflow that rewrites a line until a person agrees. Its question waits on disk for an answer.

python approval_workflow.py                   writes a draft, and ends at the question
python approval_workflow.py no too loud       rejects it: another draft is written, with a question
python approval_workflow.py yes               publishes it
"""

import sys

import msgspec
import trio

from greenroom import Agent, Answer, FileStore, ModelRequest, RuleDecision
from greenroom.flow import END, START, Workflow, request_approval
from greenroom.testing import ScriptedProvider


class State(msgspec.Struct):
    brief: str
    draft: str = ""
    is_approved: bool = False


async def approve(state: State) -> dict[str, object]:
    answer = await request_approval("Publish this", state.draft)
    brief = state.brief if answer.allowed else f"{state.brief}; but {answer.message}"
    return {"is_approved": answer.allowed, "brief": brief}


async def publish(state: State) -> None:
    print("published:", state.draft)


def model(request: ModelRequest) -> str:  # or "anthropic:claude-sonnet-5-5" for all requests
    return "A lamp for life." if "too loud" in request.messages[0].text else "BUY OUR LAMP!"


writer = Agent(ScriptedProvider(model), instructions="Write one line of advertising.")
workflow = Workflow(State).node("write", writer, input="brief", output="draft")
workflow.node("approve", approve, repeatable=True)  # asking again does no harm
workflow.node("publish", publish).edge("publish", END)
workflow.edge(START, "write").edge("write", "approve")
workflow.route("approve", lambda state: "publish" if state.is_approved else "write")


async def main() -> None:
    answers = {}
    if words := sys.argv[1:]:
        decision = RuleDecision.ALLOW if words[0] == "yes" else RuleDecision.DENY
        answers["approve"] = Answer(decision, message=" ".join(words[1:]))
    store = FileStore("runs")
    run = await workflow.run(
        None if await store.exists("lamp") else State("a lamp"),
        session="lamp",
        store=store,
        approve="later",
        answers=answers,
    )
    for request in run.pending:
        print(f"{request.action}? {request.details}")


trio.run(main)
