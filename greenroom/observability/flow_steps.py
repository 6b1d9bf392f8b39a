"""Steps of plans and workflows, as their chunks tell of them."""

from typing import NamedTuple

from greenroom.core import Custom
from greenroom.observability.spans import SpanKind


class Step(NamedTuple):
    """A step that begins, or one that has ended; or a whole workflow, which has no id.

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
    if chunk.kind == "workflow.step":
        return Step(SpanKind.WORKFLOW, "", begins=bool(data.get("next")))
    status, member = data.get("status"), str(data.get("session_id") or "")
    begins, failed = status == "executing", status == "failed"
    if chunk.kind == "plan.step" and data.get("type") == "move":
        return Step(SpanKind.PLAN_STEP, str(data.get("id")), begins, failed, member)
    if chunk.kind == "workflow.node":
        node, item = data.get("node"), data.get("item")
        id_ = str(node) if item is None else f"{node}[{item}]"
        return Step(SpanKind.WORKFLOW_STEP, id_, begins, failed, member)
    return None
