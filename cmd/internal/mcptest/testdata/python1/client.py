"""A client made of the first generation of the public SDK. It prints one line of JSON: what it saw.

How it connects stands in the environment: see clients.go.
"""

import json
import os
import sys

import anyio
import httpx
from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

ask = json.loads(os.environ["YETT_SDK_ASK"])
saw = {"tools": [], "answers": [], "progress": 0, "elicited": [], "changes": 0}


async def elicit(_, params):
    url = getattr(params, "url", None)
    saw["elicited"].append(url or params.message)
    return types.ElicitResult(action="accept", content=None if url else {"colour": "red"})


async def call(session, one):
    with anyio.CancelScope() as scope:

        async def progress(*_):
            saw["progress"] += 1
            if one.get("cancel"):
                scope.cancel()

        try:
            result = await session.call_tool(one["name"], one.get("arguments") or {}, progress_callback=progress)
            text = "".join(getattr(c, "text", "") for c in result.content)
            return {"name": one["name"], "isError": bool(result.isError), "text": text}
        except McpError as e:
            return {"name": one["name"], "thrown": True, "code": e.error.code, "text": str(e)}
        except Exception as e:  # the SDK throws what its validators throw
            return {"name": one["name"], "thrown": True, "code": 0, "text": repr(e)}
    return {"name": one["name"], "thrown": True, "code": 0, "text": "cancelled"}


async def use(read, write):
    changed = anyio.Event()

    async def message(m):
        if isinstance(getattr(m, "root", None), types.ToolListChangedNotification):
            saw["changes"] += 1
            changed.set()

    info = types.Implementation(name="yett-python1", version="1.0.0")
    asked = None if ask.get("plain") else elicit
    async with ClientSession(read, write, elicitation_callback=asked, message_handler=message, client_info=info) as s:
        opened = await s.initialize()
        saw["server"], saw["version"] = opened.serverInfo.name, str(opened.protocolVersion)
        cursor = None
        while True:
            page = await s.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            saw["tools"] += [t.name for t in page.tools]
            cursor = page.nextCursor
            if cursor is None:
                break
        for one in ask.get("calls") or []:
            saw["answers"].append(await call(s, one))
        if ask.get("change"):
            await s.call_tool(ask["change"], {})
            await changed.wait()


async def main():
    if ask.get("command"):
        command = StdioServerParameters(
            command=ask["command"][0], args=ask["command"][1:], env={**os.environ, **(ask.get("env") or {})}
        )
        async with stdio_client(command) as (read, write):
            await use(read, write)
        return
    async with httpx.AsyncClient(headers=ask.get("header") or {}, timeout=httpx.Timeout(30, read=300)) as web:
        async with streamable_http_client(ask["url"], http_client=web) as (read, write, _):
            await use(read, write)


anyio.run(main)
print(json.dumps(saw))
sys.stdout.flush()
