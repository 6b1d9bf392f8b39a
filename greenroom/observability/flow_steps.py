"""Steps of plans and workflows, as their chunks tell of them."""

from collections.abc import Mapping
from typing import NamedTuple

from greenroom.core import Custom
from greenroom.observability.spans import SpanKind


class Step(NamedTuple):
    """A step that begins, or one that has ended.

    Attributes:
        kind: whether it is of a plan or of a workflow.
        id: its name, unique in its run.
        begins: whether it begins.
        failed: whether it has failed.
        member: the session that works for it, if one does.
    """

    kind: SpanKind
    id: str
    begins: bool
    failed: bool = False
    member: str = ""


def read_step(chunk: Custom) -> Step | None:
    """Read the step that a chunk tells of; None if it tells of something else.

    Example:
        >>> read_step(Custom("plan.step", {"type": "move", "id": "a", "status": "failed"})).failed
        True
    """
    data = chunk.data
    member = str(data.get("session_id") or "")
    if chunk.kind == "plan.step" and data.get("type") == "move":
        status = data.get("status")
        begins, failed = status == "executing", status == "failed"
        return Step(SpanKind.PLAN_STEP, str(data.get("id")), begins, failed, member)
    if chunk.kind == "workflow.node" and isinstance(unit := data.get("unit"), Mapping):
        item = unit.get("item")
        id_ = str(unit.get("node")) if item is None else f"{unit.get('node')}[{item}]"
        return Step(SpanKind.WORKFLOW_STEP, id_, data.get("changes") is None, member=member)
    return None
