"""Several agents: what they say to each other, and what they share.

`topic` tells all members what one has said, each through its mailbox; `agent_message` is what is said.
`blackboard` keeps values that several agents read and write.
"""

from greenroom.teams.agent_message import (
    AgentMessage as AgentMessage,
    ErrorReport as ErrorReport,
    Payload as Payload,
    SharedInformation as SharedInformation,
    StatusUpdate as StatusUpdate,
    TaskRequest as TaskRequest,
    TaskResponse as TaskResponse,
)
from greenroom.teams.blackboard import (
    Blackboard as Blackboard,
    BlackboardEntry as BlackboardEntry,
    BlackboardStatistics as BlackboardStatistics,
)
from greenroom.teams.topic import (
    Delivery as Delivery,
    DeliveryStatus as DeliveryStatus,
    Topic as Topic,
    TopicStatistics as TopicStatistics,
    WhenFull as WhenFull,
)

__all__ = [
    "AgentMessage",
    "Blackboard",
    "BlackboardEntry",
    "BlackboardStatistics",
    "Delivery",
    "DeliveryStatus",
    "ErrorReport",
    "Payload",
    "SharedInformation",
    "StatusUpdate",
    "TaskRequest",
    "TaskResponse",
    "Topic",
    "TopicStatistics",
    "WhenFull",
]
