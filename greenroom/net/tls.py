"""Whom a TLS connection trusts."""

import os
import ssl

import trio

from greenroom.core import ConfigurationError

_contexts: dict[tuple[str, str], ssl.SSLContext] = {}
"""One context for each setting of the two variables; a process has one or two."""

_load_lock: trio.lowlevel.RunVar[trio.Lock] = trio.lowlevel.RunVar("greenroom.net.tls")


async def tls_context() -> ssl.SSLContext:
    """Return the process's TLS context, shared by all clients.

    `SSL_CERT_FILE` and `SSL_CERT_DIR` name the trusted authorities, as they do for OpenSSL; by
    default they are those of Mozilla, as the package certifi has them.

    Raises:
        ConfigurationError: the file or folder can't be read, or holds no certificate.
    """
    key = (os.environ.get("SSL_CERT_FILE", ""), os.environ.get("SSL_CERT_DIR", ""))
    if key not in _contexts:
        async with _lock():  # a hundred first requests would load them a hundred times
            if key not in _contexts:
                _contexts[key] = await trio.to_thread.run_sync(_load, *key)
    return _contexts[key]


def _lock() -> trio.Lock:
    """Return the lock of this run of trio: its tasks can't wait together with those of another."""
    try:
        return _load_lock.get()
    except LookupError:
        lock = trio.Lock()
        _load_lock.set(lock)
        return lock


def _load(file: str, folder: str) -> ssl.SSLContext:
    if not file and not folder:
        import certifi

        file = certifi.where()
    try:
        context = ssl.create_default_context(cafile=file or None, capath=folder or None)
    except OSError as error:  # an SSLError is one too
        raise ConfigurationError(
            f"the TLS certificates in {file or folder} can't be loaded: {error.strerror or error}",
            hint="set SSL_CERT_FILE to a file of PEM certificates, or unset it",
        ) from error
    context.set_alpn_protocols(["http/1.1"])
    return context
