"""Names for the other packages of Greenroom only: programs may not rely on them."""

from greenroom._lazy import open_lazily

__getattr__, __dir__, __all__ = open_lazily(__name__)
