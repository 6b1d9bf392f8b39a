"""`run_batch`: the calls of one reply, run in their order and side by side, without an agent."""

from greenroom.tools._internal import CallOrder, Reach


async def run_batch(calls, tools, limit=5, on_result=None):
    """Run calls of (name, input, context), and return their results in the calls' order."""
    results = {}

    async def run(index):
        results[index] = await tools.execute(*calls[index])
        if on_result:
            on_result(index, results[index])

    order = CallOrder([Reach()] * len(calls), limit)
    for index, (name, input_, context) in enumerate(calls):
        found = tools.get(name)
        order.allow(index, Reach.of(found, input_, context) if found else Reach())
    await order.run(run)
    return [results[index] for index in range(len(calls))]
