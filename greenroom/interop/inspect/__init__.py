"""Agents of ours as solvers of Inspect, the evaluation framework of the UK AI Security Institute.

`solver` runs an agent for a sample. `models` are what the agent asks in place of its own models:
Inspect's, or its own under Inspect's limits. `task_tools` makes tools of ours of a task's tools,
and `messages` translates what is said. `escape` carries an exception of Inspect's out of the agent.

Inspect is imported where a solver is made: `pip install 'greenroom[inspect]'`.
"""

from greenroom.interop.inspect.solver import as_solver

__all__ = ["as_solver"]
