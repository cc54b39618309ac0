"""The public Python client's governance of tool calls, unmodified: over the socket, over HTTP, and its wait for approvals.
Releases before 0.3.1 have none of it; what came with 0.3.3 is left out for earlier ones.
"""

import asyncio
import json
import socket
import sys
import threading
import types
import unittest

import gateway
from faramesh import autopatch

try:
    from faramesh import GovernedToolSet, ToolDeniedException, transport
except ImportError:  # before 0.3.3
    transport = None
from faramesh.middleware import FarameshMiddleware


class Tool:
    """A framework's tool as the auto-patcher finds them. It notes its runs."""

    def __init__(self, name):
        self.name, self.runs = name, 0

    def run(self, *args, **kwargs):
        self.runs += 1
        return "done"


class BaseTool(Tool):
    """Stands in for langchain's class of this name: the client looks it up by import and patches it."""

    def invoke(self, input):
        return self._run(**input)

    async def ainvoke(self, input):
        return await self._arun(**input)

    def _run(self, **kwargs):
        return Tool.run(self)

    async def _arun(self, **kwargs):
        return Tool.run(self)


sys.modules["langchain_core"] = types.ModuleType("langchain_core")
sys.modules["langchain_core.tools"] = types.ModuleType("langchain_core.tools")
sys.modules["langchain_core.tools"].BaseTool = BaseTool


def patched():
    kind = type("Patched", (Tool,), {"run": Tool.run})
    assert autopatch._wrap_method(kind, "run", "test", lambda self, args, kwargs: self.name)
    return kind


class Case(unittest.TestCase):
    def setUp(self):
        self.agent = gateway.name()
        gateway.use(gateway.AGENT)

    def local(self, **more):
        """The client's environment when it is to use the socket."""
        return gateway.environment(FARAMESH_SOCKET=gateway.SOCKET, FARAMESH_AGENT_ID=self.agent, FARAMESH_DEFER_POLL_INTERVAL_SECONDS="0.05", **more)

    def remote(self, **more):
        return gateway.environment(FARAMESH_REMOTE_URL=gateway.URL, FARAMESH_TOKEN=gateway.AGENT, FARAMESH_AGENT_ID=self.agent, FARAMESH_SOCKET=gateway.SOCKET, **more)

    def deferred(self, tool="pay/charge", args=None):
        with self.local():
            got = autopatch._govern_via_socket(gateway.SOCKET, tool, args or {"amount": 5})
        self.assertEqual("DEFER", got["effect"])
        return got["defer_token"]


class Govern(Case):
    def test_effects(self):
        ways = [self.local] + ([self.remote] if transport else [])
        for way in ways:
            with way():
                self.assertEqual({"effect": "PERMIT"}, only(autopatch._govern_call("http/get", {"url": "u"}), "effect"))
                self.assertEqual({"effect": "DENY", "reason_code": "RULE_DENY"}, only(autopatch._govern_call("shell/run", {"cmd": "ls"}), "effect", "reason_code"))
                deferred = autopatch._govern_call("pay/charge", {"amount": 7, "way": way.__name__})
                self.assertEqual("DEFER", deferred["effect"])
                self.assertEqual("pending", autopatch._poll_defer_status(gateway.SOCKET, self.agent, deferred["defer_token"]))

    def test_names(self):
        with self.local():
            self.assertEqual("PERMIT", autopatch._govern_call("files/deep/read", {})["effect"], "the operation is behind the last slash")
            self.assertEqual("PERMIT", autopatch._govern_call("think", {})["effect"], "no slash: operation invoke")
            self.assertEqual("DENY", autopatch._govern_call("unheard", {})["effect"])

    @unittest.skipUnless(transport, "before 0.3.3")
    def test_one_receive(self):
        """The answer comes in one segment and far below the 64 KiB that the client reads once."""
        with self.local():
            where = transport.detect_transport()
            self.assertEqual("socket", where.mode)
            for _ in range(50):
                got = transport.govern_via_transport(where, "shell/run", {"cmd": "x" * 50000}, agent_id=self.agent)
                self.assertEqual("DENY", got["effect"])
        denial = got["structured_denial"]
        self.assertEqual("RULE_DENY", denial["code"])
        self.assertEqual("no-shell", denial["rule_id"])
        self.assertTrue(denial["rule_ref"] and denial["human_message"])

    @unittest.skipUnless(transport, "before 0.3.3")
    def test_tool_set(self):
        """0.3.3 cannot wrap plain functions (it looks for functools.iscoroutinefunction); langchain's tools it can."""
        for way in (self.local, self.remote):
            with way():
                think, run, refund = tools = GovernedToolSet([BaseTool("think"), BaseTool("run"), BaseTool("refund")], agent_id=self.agent)
                self.assertEqual("done", think._run(text="abc"))
                with self.assertRaises(ToolDeniedException) as caught:
                    run._run(cmd="ls")
                self.assertEqual("DENY", caught.exception.effect)
                with self.assertRaises(ToolDeniedException) as caught:
                    refund._run(order=way.__name__)
                self.assertEqual("DEFER", caught.exception.effect)
                self.assertEqual("pending", autopatch._poll_defer_status(gateway.SOCKET, self.agent, caught.exception.defer_token))
                self.assertEqual([1, 0, 0], [tool.runs for tool in tools])

    def test_denial_explained(self):
        if not transport:
            return  # came with 0.3.3
        with self.local(), self.assertRaises(ToolDeniedException) as caught:
            GovernedToolSet([BaseTool("run")], agent_id=self.agent)[0]._run(cmd="ls")
        denial = caught.exception
        self.assertEqual(("RULE_DENY", "no-shell", "Ask a person to run it."), (denial.code, denial.rule_id, denial.human_message))
        with self.local(), self.assertRaises(ToolDeniedException) as caught:
            GovernedToolSet([BaseTool("refund")], agent_id=self.agent)[0]._run(order="X")
        self.assertEqual(("approval", caught.exception.defer_token), (caught.exception.resolution["type"], caught.exception.approval_id))

    def test_langchain(self):
        from faramesh.adapters.langchain import install_langchain_interceptor

        install_langchain_interceptor(include_langgraph=False)
        self.assertTrue(BaseTool.invoke._faramesh_langchain_patched)
        with self.local(FARAMESH_DEFER_MODE="raise", FARAMESH_DEFER_WAIT_TIMEOUT_SECONDS="0.1"):
            for name, runs in (("think", 1), ("run", 0), ("refund", 0)):
                for invoke in (lambda tool: tool.invoke({"order": 1}), lambda tool: asyncio.run(tool.ainvoke({"order": 1}))):
                    tool = BaseTool(name)
                    try:
                        invoke(tool)
                    except RuntimeError as error:
                        self.assertRegex(str(error), "Faramesh DE")
                    self.assertEqual(runs, tool.runs)

    def test_many_at_once(self):
        """No answer goes to another's question."""
        wrong = []
        kinds = (("think", "PERMIT"), ("run", "DENY"), ("refund", "DEFER"), ("unheard", "DENY"))

        def work(n):
            for turn in range(10):
                tool, effect = kinds[(n + turn) % len(kinds)]
                got = autopatch._govern_via_socket(gateway.SOCKET, tool, {"n": n, "turn": turn, "pad": "x" * (n * 97)})["effect"]
                if got != effect:
                    wrong.append((tool, got))

        with self.local():
            for join in [gateway.background(lambda n=n: work(n)) for n in range(24)]:
                join()
        self.assertEqual([], wrong)

    def test_operations_of_deep_tools(self):
        """The client takes the last part of a name for the operation. An approval of one is none of another."""
        with self.local():
            ask = lambda name: autopatch._govern_via_socket(gateway.SOCKET, name, {"id": 7})["defer_token"]
            read, delete = ask("pay/customers/read"), ask("pay/customers/delete")
            self.assertNotEqual(read, delete)
            gateway.resolve(read, True)
            self.assertEqual("pending", autopatch._poll_defer_status(gateway.SOCKET, self.agent, delete))

    def test_patched_tools(self):
        with self.local(FARAMESH_DEFER_MODE="raise", FARAMESH_DEFER_WAIT_TIMEOUT_SECONDS="0.1"):
            think, run, refund = (patched()(name) for name in ("think", "run/invoke", "refund"))
            self.assertEqual("done", think.run("abc", k=[1, b"x", {2}]))
            with self.assertRaisesRegex(RuntimeError, "Faramesh DENY: RULE_DENY"):
                run.run("ls")
            with self.assertRaisesRegex(RuntimeError, "Faramesh DEFER"):
                refund.run(order="A-1")
        self.assertEqual((1, 0, 0), (think.runs, run.runs, refund.runs))

    def test_middleware(self):
        with self.local():
            middleware = FarameshMiddleware(agent_id=self.agent)
            self.assertEqual("fine", middleware.after_tool_call("think", {}, "fine", {}))
            with self.assertRaisesRegex(RuntimeError, "DENY"):
                middleware.after_tool_call("run", {}, "fine", {})
            with self.assertRaisesRegex(RuntimeError, "DEFER"):
                middleware.after_tool_call("refund", {"order": "m"}, "fine", {})

    def test_adapters(self):
        from faramesh.adapters.bedrock_agentcore import govern_agentcore_tool
        from faramesh.adapters.google_adk import faramesh_tool

        ran = []
        with self.local():
            for wrap in (govern_agentcore_tool, faramesh_tool()):
                for tool, allowed in (("think", True), ("run", False), ("refund", False)):
                    def body(**kwargs):
                        ran.append(tool)
                    body.__name__ = tool
                    if allowed:
                        wrap(body)(order=1)
                    else:
                        with self.assertRaisesRegex(RuntimeError, "Faramesh DE"):
                            wrap(body)(order=1)
        self.assertEqual(["think", "think"], ran)


class Wait(Case):
    """What the client does while somebody decides."""

    def test_statuses(self):
        token = self.deferred()
        poll = lambda t: autopatch._poll_defer_status(gateway.SOCKET, self.agent, t)
        self.assertEqual("pending", poll(token))
        gateway.resolve(token, True)
        self.assertEqual("approved", poll(token))
        token = self.deferred(args={"amount": 6})
        gateway.resolve(token, False)
        self.assertEqual("denied", poll(token))
        for unknown in ("nothing", "dfr_00000000000000000000000000", ""):
            with self.subTest(unknown), self.assertRaises(RuntimeError):
                poll(unknown)

    def test_approved(self):
        with self.local():
            token = self.deferred(tool="refund", args={"order": "B-1"})
            join = gateway.background(lambda: gateway.resolve(token, True))
            autopatch._require_defer_approval("refund", {"defer_token": token})
            join()

    def test_approved_tool_runs(self):
        tool, finished = patched()("refund"), threading.Event()
        same = {"agent_id": self.agent, "tool_id": "refund", "operation": "invoke", "action_type": "tool_call", "args": {"order": "B-2"}}

        def run():
            try:
                tool.run(order="B-2")
            finally:
                finished.set()

        with self.local(FARAMESH_DEFER_WAIT_TIMEOUT_SECONDS=str(gateway.PATIENCE)):
            join = gateway.background(run)
            while not finished.is_set():  # the same call asked here joins the tool's, or is there first and then asked again
                gateway.resolve(gateway.post("/v1/evaluate", gateway.AGENT, same).json()["defer_token"], True)
                finished.wait(0.2)
            join()
        self.assertEqual(1, tool.runs)

    def test_denied(self):
        with self.local():
            token = self.deferred(tool="refund", args={"order": "B-3"})
            join = gateway.background(lambda: gateway.resolve(token, False))
            with self.assertRaisesRegex(RuntimeError, "deferred request denied"):
                autopatch._require_defer_approval("refund", {"defer_token": token})
            join()

    def test_expired(self):
        with self.local():
            token = self.deferred(tool="brief/ask")
            with self.assertRaisesRegex(RuntimeError, "deferred request (expired|denied)"):
                autopatch._require_defer_approval("brief/ask", {"defer_token": token})

    def test_nobody_answers(self):
        tool = patched()("refund")
        with self.local(FARAMESH_DEFER_WAIT_TIMEOUT_SECONDS="0.2"):
            with self.assertRaisesRegex(RuntimeError, "timeout|Faramesh DEFER"):
                tool.run(order="B-4")
        self.assertEqual(0, tool.runs)


class Refused(Case):
    """No client ever takes a refusal, an error or silence for a permit. Each way to ask meets each thing that goes wrong."""

    def ways(self):
        """Name and function of every way that a tool call is asked for; each runs the tool when it believes it may."""
        def by_patch(name, args):
            tool = patched()(name)
            try:
                tool.run(**args)
            except Exception:
                pass
            return tool.runs

        def by_call(name, args):
            try:
                return autopatch._govern_call(name, args)["effect"] == "PERMIT"
            except Exception:
                return False

        def by_socket(name, args):
            try:
                return autopatch._govern_via_socket(gateway.os.environ.get("FARAMESH_SOCKET", ""), name, args)["effect"] == "PERMIT"
            except Exception:
                return False

        def by_set(name, args):
            tool = BaseTool(name)
            try:
                GovernedToolSet([tool], agent_id=gateway.os.environ["FARAMESH_AGENT_ID"])[0]._run(**args)
            except Exception:
                pass
            return tool.runs

        def by_async_set(name, args):
            tool = BaseTool(name)
            try:
                asyncio.run(GovernedToolSet([tool], agent_id=gateway.os.environ["FARAMESH_AGENT_ID"])[0]._arun(**args))
            except Exception:
                pass
            return tool.runs

        def by_langchain(name, args):
            from faramesh.adapters.langchain import install_langchain_interceptor

            install_langchain_interceptor(include_langgraph=False)
            tool = BaseTool(name)
            try:
                tool.invoke(args)
            except Exception:
                pass
            return tool.runs

        ways = [by_patch, by_call, by_socket, by_langchain]
        return ways + [by_set, by_async_set] if transport else ways

    def each(self, expected, name, args, **environment):
        for way in self.ways():
            base = {"FARAMESH_AGENT_ID": self.agent, "FARAMESH_DEFER_MODE": "raise", "FARAMESH_DEFER_WAIT_TIMEOUT_SECONDS": "0.05", "FARAMESH_DEFER_POLL_INTERVAL_SECONDS": "0.05"}
            with self.subTest(way.__name__), gateway.environment(**{**base, **environment}):
                self.assertEqual(expected, bool(way(name, args)), way.__name__)

    def test_permit_runs(self):
        self.each(True, "think", {"a": 1}, FARAMESH_SOCKET=gateway.SOCKET)

    def test_decisions(self):
        for name in ("run", "refund", "unheard"):
            with self.subTest(name):
                self.each(False, name, {"a": 1}, FARAMESH_SOCKET=gateway.SOCKET)

    def test_bad_arguments(self):
        deep = {}
        for _ in range(70):
            deep = {"a": deep}
        for args in ({"a": float("nan")}, {"a": float("-inf")}, {"a": "\ud800"}, {"a": "\x00"}, {"a": "x" * (5 << 20)}, deep):
            self.each(False, "think", args, FARAMESH_SOCKET=gateway.SOCKET)

    @unittest.skipUnless(transport, "before 0.3.3")
    def test_duplicate_names(self):
        with self.local(), self.assertRaises(RuntimeError):
            transport.govern_via_transport(transport.detect_transport(), "think", {"a": {1: 1, "1": 2}}, agent_id=self.agent)

    def test_bad_names(self):
        for agent in ("a" * 257, "a\u202eb"):
            self.each(False, "think", {}, FARAMESH_SOCKET=gateway.SOCKET, FARAMESH_AGENT_ID=agent)
        for name in ("t" * 300, "think\u200b"):
            self.each(False, name, {}, FARAMESH_SOCKET=gateway.SOCKET)

    def test_wrong_key(self):
        gateway.use("wrong")  # whoever falls back to HTTP is not let in there either
        self.each(False, "think", {}, FARAMESH_SOCKET=gateway.AUDIT_SOCKET)
        for key in ("wrong", "", gateway.APPROVER):
            gateway.use(key or "wrong")
            for path in (gateway.AUDIT_SOCKET, "/nonexistent"):
                self.each(False, "think", {}, FARAMESH_REMOTE_URL=gateway.URL, FARAMESH_TOKEN=key, FARAMESH_SOCKET=path)

    def test_killed(self):
        killed = json.dumps({"type": "kill", "api_key": gateway.OPERATOR, "agent_id": self.agent, "reason": "test"})
        answer = ask(killed)
        self.assertTrue(answer.get("ok"), answer)
        self.each(False, "think", {}, FARAMESH_SOCKET=gateway.SOCKET)
        self.each(False, "think", {}, FARAMESH_REMOTE_URL=gateway.URL, FARAMESH_TOKEN=gateway.AGENT, FARAMESH_SOCKET=gateway.SOCKET)


class Subscribe(Case):
    """How subscribers read: one request, a first line that says subscribed, then an event a line. Neither sends a key."""

    RECORD = """seq type timestamp record_id call_id agent_id session_id tool_id tool_name operation effect reason_code reason rule_id
    defer_token policy_version latency_ms principal_id principal_method args blast_radius reversibility incident_category
    incident_severity""".split()

    def test_audit(self):
        with Subscription(gateway.AUDIT_SOCKET, {"type": "audit_subscribe", "agent_id": ""}) as events:
            for tool, effect in (("think/invoke", "PERMIT"), ("shell/run", "DENY"), ("pay/charge", "DEFER")):
                body = {"agent_id": self.agent, "tool_id": tool, "args": {"n": 1}}
                self.assertEqual(200, gateway.post("/v1/authorize", gateway.AUDIT_KEY, body, url=gateway.AUDIT_URL).status_code)
                event = events.until(lambda event: event.get("agent_id") == self.agent and event.get("effect"))
                self.assertEqual((effect, tool), (event["effect"], event["tool_id"]))
                self.assertEqual([], [member for member in self.RECORD if member not in event])
                self.assertIsInstance(event["latency_ms"], (int, float))

    def test_callbacks(self):
        with Subscription(gateway.SOCKET, {"type": "callback_subscribe"}) as events:
            token = self.deferred()
            mine = lambda kind: lambda event: event.get("event_type") == kind and event.get("defer_token") == token
            events.until(mine("defer_created"))
            gateway.resolve(token, False)
            event = events.until(mine("defer_resolved"))
            self.assertEqual(("denied", False), (event["status"], event["approved"]))
            self.assertEqual([], [member for member in ("approver_id", "reason", "timestamp", "seq") if member not in event])

    def test_without_scope(self):
        with self.assertRaises(RuntimeError):
            Subscription(gateway.SOCKET, {"type": "audit_subscribe", "agent_id": ""})


class Subscription:
    def __init__(self, path, request):
        self.conn = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.conn.settimeout(gateway.PATIENCE)
        self.conn.connect(path)
        self.lines = self.conn.makefile("rb")
        self.conn.sendall(json.dumps(request).encode() + b"\n")
        first = json.loads(self.lines.readline())
        if first.get("subscribed") is not True:
            self.__exit__()
            raise RuntimeError("Unexpected handshake response: %s" % first)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.lines.close()
        self.conn.close()

    def until(self, wanted):
        while True:
            line = self.lines.readline()
            if not line:
                raise AssertionError("the stream ended")
            event = json.loads(line)
            if wanted(event):
                return event


def only(answer, *members):
    return {member: answer[member] for member in members}


def ask(line):
    """One line to the socket and the first line of the answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as conn:
        conn.settimeout(gateway.PATIENCE)
        conn.connect(gateway.SOCKET)
        conn.sendall(line.encode() + b"\n")
        with conn.makefile("rb") as answers:
            return json.loads(answers.readline())


if __name__ == "__main__":
    unittest.main()
