"""The embedded model: rules instead of a network. `orders` reads, `answers` tells, both pure."""

from greenroom.llm.offline.provider import OfflineProvider as OfflineProvider
