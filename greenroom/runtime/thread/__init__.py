"""A runtime in a thread of its own, reached from asyncio and from other threads."""
