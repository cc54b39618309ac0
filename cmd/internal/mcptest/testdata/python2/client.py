"""A client made of the second generation of the public SDK. It prints one line of JSON: what it saw.

How it connects stands in the environment: see clients.go.
"""

import json
import os
import sys

import anyio
import httpx2
import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError

ask = json.loads(os.environ["YETT_SDK_ASK"])
saw = {"tools": [], "answers": [], "progress": 0, "elicited": [], "changes": 0}


async def elicit(_, params):
    url = getattr(params, "url", None)
    saw["elicited"].append(url or params.message)
    return types.ElicitResult(action="accept", content=None if url else {"colour": "red"})


async def call(client, one):
    with anyio.CancelScope() as scope:

        async def progress(*_):
            saw["progress"] += 1
            if one.get("cancel"):
                scope.cancel()

        try:
            result = await client.call_tool(one["name"], one.get("arguments") or {}, progress_callback=progress)
            text = "".join(getattr(c, "text", "") for c in result.content)
            return {"name": one["name"], "isError": bool(result.is_error), "text": text}
        except MCPError as e:
            return {"name": one["name"], "thrown": True, "code": e.error.code, "text": str(e)}
        except Exception as e:  # the SDK throws what its validators throw
            return {"name": one["name"], "thrown": True, "code": 0, "text": repr(e)}
    return {"name": one["name"], "thrown": True, "code": 0, "text": "cancelled"}


async def change(client, changed):
    if client.protocol_version < "2026":
        await client.call_tool(ask["change"], {})
        await changed.wait()
        return
    async with client.listen(tools_list_changed=True) as events:
        await client.call_tool(ask["change"], {})
        async for _ in events:
            saw["changes"] += 1
            return


async def use(server):
    changed = anyio.Event()

    async def message(m):
        if isinstance(m, types.ToolListChangedNotification):
            saw["changes"] += 1
            changed.set()

    async with Client(
        server,
        mode="legacy" if ask.get("legacy") else "auto",
        elicitation_callback=None if ask.get("plain") else elicit,
        message_handler=message,
        client_info=types.Implementation(name="yett-python2", version="1.0.0"),
    ) as client:
        info = client.server_info
        saw["server"], saw["version"] = info.name if info else "", str(client.protocol_version)
        cursor = None
        while True:
            page = await client.list_tools(cursor=cursor)
            saw["tools"] += [t.name for t in page.tools]
            cursor = page.next_cursor
            if cursor is None:
                break
        for one in ask.get("calls") or []:
            saw["answers"].append(await call(client, one))
        if ask.get("change"):
            await change(client, changed)


async def main():
    if ask.get("command"):
        await use(
            StdioServerParameters(
                command=ask["command"][0], args=ask["command"][1:], env={**os.environ, **(ask.get("env") or {})}
            )
        )
        return
    async with httpx2.AsyncClient(headers=ask.get("header") or {}, timeout=httpx2.Timeout(30, read=300)) as web:
        await use(streamable_http_client(ask["url"], http_client=web))


anyio.run(main)
print(json.dumps(saw))
sys.stdout.flush()
