"""An agent as a solver of Inspect: `inspect eval examples/inspect_task.py --model …`."""

import os

from inspect_ai import Task, eval as run_tasks, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessage, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes

from greenroom import Agent
from greenroom.interop.inspect import as_solver
from greenroom.tools import calculator

QUESTIONS = {"What is 17 * 23?": "391", "What is 2 ** 20?": "1048576", "And 10 / 4?": "2.5"}


@task  # type: ignore[untyped-decorator]  # where Inspect is not installed
def sums() -> Task:
    agent = Agent("anthropic:claude-sonnet-5-5", tools=[calculator], name="calculating")
    samples = [Sample(question, target=answer) for question, answer in QUESTIONS.items()]
    return Task(dataset=samples, solver=as_solver(agent), scorer=includes(), message_limit=20)


def calculate(messages: list[ChatMessage], *_: object) -> ModelOutput:
    """Stand in for a model: calculate what is asked, and say what came out."""
    if messages[-1].role == "tool":
        output = ModelOutput.from_content("stand-in", f"It is {messages[-1].text}.")
    else:
        sum_ = messages[-1].text.removeprefix("What is ").strip("And ?")
        output = ModelOutput.for_tool_call("stand-in", "calculator", {"expression": sum_})
    output.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
    return output


if __name__ == "__main__":  # without a key
    os.environ["INSPECT_ASYNC_BACKEND"] = "trio"
    model = get_model("mockllm/model", custom_outputs=calculate)
    [log] = run_tasks(sums(), model=model, display="none", log_dir="logs")
    for sample in log.samples or ():
        print(f"{sample.input} {sample.output.completion} {sample.scores['includes'].value}")
    print("accuracy:", log.results.scores[0].metrics["accuracy"].value)
