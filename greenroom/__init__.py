"""Greenroom."""

from greenroom._version import __version__ as __version__
