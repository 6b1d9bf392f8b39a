"""The commands besides running an agent: `sessions`, `permissions` and `doctor`."""

__all__: list[str] = []
