"""The one place that names the HTTP library; another one with httpx's interface goes in here."""

import httpx

__all__ = ["httpx"]
