"""Whom a TLS connection trusts, and what a server shows of itself."""

import os
import ssl
from typing import Never

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


def server_context(certificate: str, key: str | None = None) -> ssl.SSLContext:
    """Return the TLS context of a server; it reads two small files.

    Args:
        certificate: a file of PEM: the server's certificate, then those of authorities between.
        key: the file of its private key; None if that is in the first file.

    Raises:
        ConfigurationError: a file can't be read, the key is encrypted, or they are not a
            certificate and its key.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    hint = "name a file of PEM certificates, and one of the private key"
    for path in (certificate, key or certificate):
        try:
            with open(path, "rb"):
                pass
        except OSError as error:
            raise ConfigurationError(
                f"{path} can't be read: {error.strerror}", hint=hint
            ) from error
    try:
        context.load_cert_chain(certificate, key, password=_refuse_password)
    except ssl.SSLError as error:
        files = certificate if key is None else f"{certificate} and {key}"
        reason = f" ({error.reason})" if error.reason else ""
        raise ConfigurationError(
            f"{files}: no certificate with its private key{reason}", hint=hint
        ) from error
    return context


def _refuse_password() -> Never:
    """Ask nobody, which OpenSSL would do at the terminal."""
    raise ConfigurationError(
        "the private key of TLS is encrypted, and a server can't ask for its password",
        hint="keep it unencrypted in a file that only the server's user can read",
    )
