from greenroom.distributed.agent_types import (
    AgentSpec as AgentSpec,
    AgentType as AgentType,
    HostInfo as HostInfo,
    NoHostError as NoHostError,
)
from greenroom.distributed.cluster import Cluster as Cluster
from greenroom.distributed.host import Host as Host
from greenroom.distributed.ray_hosts import RayHosts as RayHosts
from greenroom.distributed.remote_agent import (
    AgentStatus as AgentStatus,
    RemoteAgent as RemoteAgent,
)
