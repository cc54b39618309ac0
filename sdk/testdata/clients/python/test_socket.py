"""The public Python client's governance of tool calls, unmodified: over the socket, over HTTP, and its wait for approvals.
Releases before 0.3.1 have none of it; what came with 0.3.3 is left out for earlier ones.
"""

import asyncio
import json
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
        ran = []

        def think(text):
            ran.append(text)
            return len(text)

        def run(cmd):
            ran.append(cmd)

        def refund(order):
            ran.append(order)

        async def lookup(key):
            ran.append(key)

        for way in (self.local, self.remote):
            with way():
                tools = GovernedToolSet([think, run, refund], agent_id=self.agent)
                self.assertEqual(3, tools[0]("abc"))
                with self.assertRaises(ToolDeniedException) as caught:
                    tools[1]("ls")
                self.assertEqual("DENY", caught.exception.effect)
                with self.assertRaises(ToolDeniedException) as caught:
                    tools[2](way.__name__)
                self.assertEqual("DEFER", caught.exception.effect)
                self.assertEqual("pending", autopatch._poll_defer_status(gateway.SOCKET, self.agent, caught.exception.defer_token))
        self.assertEqual(["abc", "abc"], ran)

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
        tool = patched()("refund")
        with self.local():
            def approve():  # the same call asked again joins the pending one
                while not tool.runs:
                    same = {"agent_id": self.agent, "tool_id": "refund/invoke", "action_type": "tool_call", "args": {"order": "B-2"}}
                    gateway.resolve(gateway.post("/v1/evaluate", gateway.AGENT, same).json()["defer_token"], True)

            join = gateway.background(approve)
            self.assertEqual("done", tool.run(order="B-2"))
            join()

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
            ran = []

            def body(**kwargs):
                ran.append(1)
            body.__name__ = name
            try:
                GovernedToolSet([body], agent_id=gateway.os.environ["FARAMESH_AGENT_ID"])[0](**args)
            except Exception:
                pass
            return len(ran)

        def by_async_set(name, args):
            ran = []

            async def body(**kwargs):
                ran.append(1)
            body.__name__ = name
            try:
                asyncio.run(GovernedToolSet([body], agent_id=gateway.os.environ["FARAMESH_AGENT_ID"])[0](**args))
            except Exception:
                pass
            return len(ran)

        ways = [by_patch, by_call, by_socket]
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
        self.each(False, "think", {}, FARAMESH_SOCKET=gateway.WRONG_SOCKET)
        for key in ("wrong", "", gateway.APPROVER):
            gateway.use(key or "wrong")
            for socket in (gateway.WRONG_SOCKET, "/nonexistent"):
                self.each(False, "think", {}, FARAMESH_REMOTE_URL=gateway.URL, FARAMESH_TOKEN=key, FARAMESH_SOCKET=socket)

    def test_killed(self):
        killed = json.dumps({"type": "kill", "api_key": gateway.OPERATOR, "agent_id": self.agent, "reason": "test"})
        answer = ask(killed)
        self.assertTrue(answer.get("ok"), answer)
        self.each(False, "think", {}, FARAMESH_SOCKET=gateway.SOCKET)
        self.each(False, "think", {}, FARAMESH_REMOTE_URL=gateway.URL, FARAMESH_TOKEN=gateway.AGENT, FARAMESH_SOCKET=gateway.SOCKET)


def only(answer, *members):
    return {member: answer[member] for member in members}


def ask(line):
    """One line to the socket and the first line of the answer."""
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as conn:
        conn.settimeout(gateway.PATIENCE)
        conn.connect(gateway.SOCKET)
        conn.sendall(line.encode() + b"\n")
        with conn.makefile("rb") as answers:
            return json.loads(answers.readline())


if __name__ == "__main__":
    unittest.main()
