"""Proxies: which one a URL goes through, by the environment's own variables."""

import ipaddress
from urllib.request import getproxies_environment


def proxy_for(scheme: str, host: str) -> str | None:
    """Return the URL of the proxy for this scheme and host, or None for a direct connection.

    `HTTPS_PROXY`, `HTTP_PROXY` and `ALL_PROXY` name it, in capitals or not. `NO_PROXY` lists what
    is contacted directly: hosts, domains with all their hosts, addresses, networks such as
    `10.0.0.0/8`, or `*` for everything.
    """
    proxies = getproxies_environment()
    proxy = proxies.get(scheme) or proxies.get("all")
    if not proxy:
        return None
    direct = (entry.strip() for entry in proxies.get("no", "").split(","))
    if any(_covers(entry, host) for entry in direct if entry):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _covers(entry: str, host: str) -> bool:
    if entry == "*":
        return True
    try:
        return ipaddress.ip_address(host) in ipaddress.ip_network(entry.strip("[]"), strict=False)
    except ValueError:
        name = entry.lower().removeprefix("*").removeprefix(".").partition(":")[0]
        return host.lower() == name or host.lower().endswith(f".{name}")
