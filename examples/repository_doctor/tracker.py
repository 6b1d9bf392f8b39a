"""A tracker of issues as an MCP server: it keeps them in `issues.txt`. Any other one will do."""

import trio

from greenroom.interop import serve_mcp


async def open_issue(title: str, text: str) -> str:
    """Open an issue for what can't be mended now."""
    path = trio.Path("issues.txt")
    number = len((await path.read_text()).splitlines()) + 1 if await path.exists() else 1
    async with await path.open("a") as file:
        await file.write(f"#{number} {title}: {text}\n")
    return f"opened issue {number}"


if __name__ == "__main__":
    trio.run(serve_mcp, [open_issue])
