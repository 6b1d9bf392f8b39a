"""What judges a call, loaded with the first call that is judged: a run may never make one."""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)
