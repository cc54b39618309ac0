"""The public Python client's HTTP side, unmodified, against the gateway: every method and every error class it has."""

import hashlib
import json
import socket
import tempfile
import unittest

import faramesh
import gateway
from faramesh import client

MEMBERS = """id agent_id tool operation params context status decision reason risk_level approval_token policy_version
created_at updated_at outcome reason_code reason_details request_hash policy_hash runtime_version profile_id profile_version
profile_hash provenance_id js_example python_example""".split()


class Case(unittest.TestCase):
    def setUp(self):
        self.agent = gateway.name()
        gateway.use(gateway.AGENT)

    def permitted(self, **params):
        return faramesh.submit_action(self.agent, "http", "get", {"url": "https://example.com", **params})

    def deferred(self, **params):
        return faramesh.submit_action(self.agent, "pay", "charge", {"amount": 12.5, **params})

    def denied(self):
        """A denied action; submit_action gives none, so it is looked up."""
        with self.assertRaises(faramesh.FarameshPolicyError):
            faramesh.submit_action(self.agent, "shell", "run", {"cmd": "ls"})
        return faramesh.list_actions(agent_id=self.agent, status="denied")[0]

    def finish(self, action, success=True):
        body = {"success": True, "result": {"rows": 3}} if success else {"success": False, "error": "no route"}
        return client._make_request("POST", "/v1/actions/%s/result" % action["id"], json_data=body)


class Submit(Case):
    def test_permit(self):
        params, context = {"url": "https://example.com", "n": 7}, {"trace": "t-1"}
        action = faramesh.submit_action(self.agent, "http", "get", params, context)
        self.assertEqual([], [m for m in MEMBERS if m not in action])
        self.assertEqual(("allowed", "allow", "EXECUTE"), (action["status"], action["decision"], action["outcome"]))
        self.assertEqual((self.agent, "http", "get", params, context), tuple(action[m] for m in ("agent_id", "tool", "operation", "params", "context")))
        self.assertIsNone(action["approval_token"])
        self.assertRegex(action["id"], "^act_[0-9A-Za-z]{26}$")
        self.assertIn(action["risk_level"], ("low", "medium", "high"))
        for member in ("created_at", "updated_at"):
            self.assertRegex(action[member], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$")
        payload = {"agent_id": self.agent, "tool": "http", "operation": "get", "params": params, "context": context}
        self.assertTrue(faramesh.verify_request_hash(payload, action["request_hash"]))

    def test_deny(self):
        with self.assertRaisesRegex(faramesh.FarameshPolicyError, "shells are not for agents"):
            faramesh.submit_action(self.agent, "shell", "run", {"cmd": "ls"})
        action = faramesh.list_actions(agent_id=self.agent)[0]
        self.assertEqual(("denied", "deny", "HALT", "RULE_DENY"), tuple(action[m] for m in ("status", "decision", "outcome", "reason_code")))

    def test_unmatched_is_denied(self):
        with self.assertRaises(faramesh.FarameshPolicyError):
            faramesh.submit_action(self.agent, "unheard", "of", {})

    def test_defer(self):
        action = self.deferred()
        self.assertEqual(("pending_approval", "require_approval", "ABSTAIN"), (action["status"], action["decision"], action["outcome"]))
        self.assertGreater(len(action["approval_token"]), 20)
        self.assertEqual("money moves", action["reason"])

    def test_a_repeat_is_one_action(self):
        first, second, other = self.permitted(), self.permitted(), self.permitted(n=2)
        self.assertEqual(first["id"], second["id"])
        self.assertNotEqual(first["id"], other["id"])

    def test_repeats_at_once_are_one_action(self):
        """The client asks four times without a pause when it is refused, and its users run it on threads."""
        got = []
        for join in [gateway.background(lambda: got.append(self.deferred(n=1)["id"])) for _ in range(8)]:
            join()
        self.assertEqual((8, 1), (len(got), len(set(got))))

    def test_numbers_and_text_come_back(self):
        params = {"whole": 1000004, "float": 1.0, "big": 2**70, "far": 1e21, "tiny": 1.5e-7, "minus": -0.0, "text": "é\u2028\x7f😀", "_k": [None, True, {}]}
        action = faramesh.submit_action(self.agent, "http", "get", params)
        self.assertEqual(params, action["params"])
        again = faramesh.get_action(action["id"])
        self.assertEqual((params, 2**70), (again["params"], again["params"]["big"]))
        payload = {m: action[m] for m in ("agent_id", "tool", "operation", "params", "context")}
        self.assertTrue(faramesh.verify_request_hash(payload, action["request_hash"]))

    def test_many(self):
        specs = [{"agent_id": self.agent, "tool": tool, "operation": op} for tool, op in (("http", "get"), ("shell", "run"), ("pay", "charge"))]
        got = faramesh.submit_actions(specs)
        self.assertEqual(["allowed", None, "pending_approval"], [one.get("status") for one in got])
        self.assertIn("shells are not for agents", got[1]["error"])
        self.assertEqual(3, len(faramesh.submit_actions_bulk(specs)))
        with self.assertRaises(faramesh.FarameshBatchError) as caught:
            faramesh.submit_actions_bulk(specs, raise_on_error=True)
        self.assertEqual((2, 1), (len(caught.exception.successes), len(caught.exception.errors)))

    def test_from_a_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"agent_id": self.agent, "tool": "http", "operation": "get", "params": {"url": "u"}}, file)
            file.flush()
            self.assertEqual("allowed", faramesh.apply(file.name)["status"])

    def test_class_of_old(self):
        config = faramesh.ClientConfig(base_url=gateway.URL, token=gateway.AGENT, agent_id=self.agent)
        old = faramesh.ExecutionGovernorClient(config)
        action = old.submit_action("http", "get", {"url": "u"})
        self.assertEqual(action["id"], old.get_action(action["id"])["id"])
        self.assertEqual([action["id"]], [one["id"] for one in old.list_actions(agent_id=self.agent)])
        self.assertEqual("executing", old.start_action(action["id"])["status"])

    def test_decorator(self):
        tool = faramesh.governed_tool(agent_id=self.agent, tool="http", operation="get")(lambda url: url)
        self.assertEqual("allowed", tool("https://example.com")["status"])
        tool = faramesh.governed_tool(agent_id=self.agent, tool="shell", operation="run", block_until_done=True)(lambda cmd: cmd)
        with self.assertRaises(faramesh.FarameshPolicyError):
            tool("ls")


class Read(Case):
    def test_get(self):
        action = self.permitted()
        self.assertEqual(action, faramesh.get_action(action["id"]))
        for unknown in ("act_00000000000000000000000000", action["id"][:-1], "x"):
            with self.assertRaises(faramesh.FarameshNotFoundError):
                faramesh.get_action(unknown)

    def test_list(self):
        made = [self.permitted(n=n) for n in range(5)] + [self.deferred()]
        rows = faramesh.list_actions(agent_id=self.agent)
        self.assertIsInstance(rows, list)
        self.assertEqual([a["id"] for a in reversed(made)], [row["id"] for row in rows])
        self.assertEqual([None] * 6, [row["approval_token"] for row in rows])
        self.assertEqual([], [m for m in MEMBERS if m not in rows[0]])
        self.assertEqual([made[3]["id"], made[2]["id"]], [row["id"] for row in faramesh.list_actions(agent_id=self.agent, limit=2, offset=2)])
        self.assertEqual([made[5]["id"]], [row["id"] for row in faramesh.list_actions(agent_id=self.agent, status="pending_approval")])
        self.assertEqual(5, len(faramesh.list_actions(agent_id=self.agent, tool="http")))
        self.assertEqual([], faramesh.list_actions(agent_id=gateway.name()))
        self.assertLessEqual(6, len(faramesh.list_actions(limit=1000)))

    def test_list_limits(self):
        for options in ({"limit": 0}, {"limit": 1001}, {"offset": -1}, {"status": "odd"}):
            with self.subTest(options), self.assertRaises(faramesh.FarameshValidationError):
                faramesh.list_actions(**options)

    def test_pages(self):
        made = [self.permitted(n=n)["id"] for n in range(5)]
        seen, params = [], {"agent_id": self.agent, "limit": 2}
        while True:
            answer = gateway.requests.get(gateway.URL + "/v1/actions", params=params, headers={"Authorization": "Bearer " + gateway.AGENT}, timeout=gateway.PATIENCE)
            seen.extend(row["id"] for row in answer.json())
            if "X-Next-Cursor" not in answer.headers:
                break
            self.assertIn(answer.headers["X-Next-Cursor"], answer.headers["Link"])
            params["cursor"] = answer.headers["X-Next-Cursor"]
        self.assertEqual(made[::-1], seen)

    def test_history_of_an_action(self):
        action = self.deferred()
        with gateway.acting(gateway.APPROVER):
            faramesh.approve_action(action["id"])
        faramesh.start_action(action["id"])
        self.finish(action)
        rows = client._make_request("GET", "/v1/actions/%s/events" % action["id"])
        self.assertEqual(["created", "decision_made", "approved", "started", "succeeded"], [row["event_type"] for row in rows])
        for row in rows:
            self.assertEqual([], [m for m in ("id", "action_id", "event_type", "meta", "created_at", "prev_hash", "record_hash") if m not in row])
            self.assertEqual(action["id"], row["action_id"])


class Approve(Case):
    def test_approve_start_result(self):
        action = self.deferred()
        with gateway.acting(gateway.APPROVER):
            approved = faramesh.approve_action(action["id"], reason="order checked")
        self.assertEqual(("approved", action["id"]), (approved["status"], approved["id"]))
        self.assertEqual("executing", faramesh.start_action(action["id"])["status"])
        self.assertEqual("succeeded", self.finish(action)["status"])
        self.assertEqual("succeeded", faramesh.wait_for_completion(action["id"], poll_interval=0.05)["status"])

    def test_approve_with_the_token(self):
        action = self.deferred()
        with gateway.acting(gateway.APPROVER):
            self.assertEqual("approved", faramesh.allow(action["id"], token=action["approval_token"])["status"])

    def test_failed_result(self):
        action = self.permitted()
        faramesh.start_action(action["id"])
        self.assertEqual("failed", self.finish(action, success=False)["status"])
        self.assertEqual("failed", faramesh.wait_for_completion(action["id"])["status"])

    def test_deny(self):
        action = self.deferred()
        with gateway.acting(gateway.APPROVER):
            self.assertEqual("denied", faramesh.deny_action(action["id"], reason="too much")["status"])
        with self.assertRaises(faramesh.FarameshDeniedError):
            faramesh.block_until_approved(action["id"], poll_interval=0.05, timeout=gateway.PATIENCE)
        with self.assertRaises(faramesh.FarameshError):
            faramesh.start_action(action["id"])
        self.assertEqual("denied", faramesh.wait_for_completion(action["id"])["status"])

    def test_wrong_token(self):
        action = self.deferred()
        with gateway.acting(gateway.APPROVER), self.assertRaises(faramesh.FarameshAuthError):
            faramesh.approve_action(action["id"], token="not-" + action["approval_token"])
        self.assertEqual("pending_approval", faramesh.get_action(action["id"])["status"])

    def test_nobody_approves_his_own(self):
        action = self.deferred()
        with self.assertRaisesRegex(faramesh.FarameshError, "403"):
            faramesh.approve_action(action["id"])
        self.assertEqual("pending_approval", faramesh.get_action(action["id"])["status"])

    def test_one_answer(self):
        action = self.deferred()
        with gateway.acting(gateway.APPROVER):
            faramesh.deny_action(action["id"])
            with self.assertRaisesRegex(faramesh.FarameshError, "409"):
                faramesh.approve_action(action["id"], token=action["approval_token"])
            with self.assertRaisesRegex(faramesh.FarameshError, "is not pending approval"):
                faramesh.approve_action(action["id"])
        self.assertEqual("denied", faramesh.get_action(action["id"])["status"])

    def test_an_approval_is_for_one_operation(self):
        """A tool with a slash: the operation is not part of its name, but of what was approved."""
        read, delete = (faramesh.submit_action(self.agent, "pay/customers", operation, {"id": 7}) for operation in ("read", "delete"))
        self.assertNotEqual(read["approval_token"], delete["approval_token"])
        with gateway.acting(gateway.APPROVER):
            faramesh.approve_action(read["id"])
        self.assertEqual(("approved", "pending_approval"), (faramesh.get_action(read["id"])["status"], faramesh.get_action(delete["id"])["status"]))
        with self.assertRaises(faramesh.FarameshError):
            faramesh.start_action(delete["id"])

    def test_start_once(self):
        action = self.permitted()
        faramesh.start_action(action["id"])
        with self.assertRaisesRegex(faramesh.FarameshError, "409"):
            faramesh.start_action(action["id"])
        with self.assertRaisesRegex(faramesh.FarameshError, "409"):
            faramesh.start_action(self.deferred()["id"])

    def test_expired_is_denied(self):
        action = faramesh.submit_action(self.agent, "brief", "ask", {})
        self.assertEqual("pending_approval", action["status"])
        with self.assertRaises(faramesh.FarameshDeniedError):
            faramesh.block_until_approved(action["id"], poll_interval=0.2, timeout=gateway.PATIENCE)
        self.assertEqual("denied", faramesh.get_action(action["id"])["status"])

    def test_wait_for_the_approver(self):
        action = self.deferred()
        join = gateway.background(lambda: gateway.post("/v1/actions/%s/approval" % action["id"], gateway.APPROVER, {"token": action["approval_token"], "approve": True}))
        self.assertEqual("approved", faramesh.block_until_approved(action["id"], poll_interval=0.05, timeout=gateway.PATIENCE)["status"])
        join()

    def test_submit_and_wait(self):
        def others():
            while True:
                for action in gateway.requests.get(gateway.URL + "/v1/actions", params={"agent_id": self.agent}, headers={"Authorization": "Bearer " + gateway.AGENT}).json():
                    if action["status"] == "pending_approval":
                        full = gateway.requests.get(gateway.URL + "/v1/actions/" + action["id"], headers={"Authorization": "Bearer " + gateway.APPROVER}).json()
                        gateway.post("/v1/actions/%s/approval" % action["id"], gateway.APPROVER, {"token": full["approval_token"], "approve": True})
                    if action["status"] == "executing":
                        gateway.post("/v1/actions/%s/result" % action["id"], gateway.AGENT, {"success": True})
                        return

        join = gateway.background(others)
        done = faramesh.submit_and_wait(self.agent, "pay", "charge", {"amount": 3}, require_approval=True, auto_start=True, timeout=gateway.PATIENCE, poll_interval=0.1)
        self.assertEqual("succeeded", done["status"])
        join()

    def test_wait_gives_up(self):
        with self.assertRaises(faramesh.FarameshTimeoutError):
            faramesh.wait_for_completion(self.deferred()["id"], poll_interval=0.05, timeout=0.1)


class Gate(Case):
    OUTCOMES = (("http", "get", "EXECUTE"), ("shell", "run", "HALT"), ("pay", "charge", "ABSTAIN"), ("unheard", "of", "HALT"))

    def test_decide(self):
        for tool, operation, outcome in self.OUTCOMES:
            with self.subTest(tool):
                gate = faramesh.gate_decide(self.agent, tool, operation, {"n": 1.5}, {"c": "x"})
                self.assertEqual(outcome, gate.outcome)
                self.assertTrue(gate.reason_code)
                payload = {"agent_id": self.agent, "tool": tool, "operation": operation, "params": {"n": 1.5}, "context": {"c": "x"}}
                self.assertEqual(faramesh.compute_request_hash(payload), gate.request_hash)
                raw = faramesh.gate_decide_dict(self.agent, tool, operation, {"n": 1.5}, {"c": "x"})
                self.assertEqual([], [m for m in gate.to_dict() if m not in raw])
                parts = [gate.request_hash, gate.policy_hash, gate.profile_hash, gate.runtime_version]
                want = hashlib.sha256("|".join(part or "" for part in parts).encode()).hexdigest()
                self.assertEqual(want, gate.provenance_id)
        self.assertEqual([], faramesh.list_actions(agent_id=self.agent), "the gate makes no action")

    def test_execute_if_allowed(self):
        for tool, operation, outcome in self.OUTCOMES:
            ran = []
            got = faramesh.execute_if_allowed(self.agent, tool, operation, {}, executor=lambda *args: ran.append(args))
            self.assertEqual((outcome, outcome == "EXECUTE", outcome == "EXECUTE"), (got["outcome"], got["executed"], bool(ran)))

    def test_govern(self):
        if gateway.version() < (0, 3, 1):
            return  # this release has no govern
        self.assertEqual("EXECUTE", faramesh.govern(self.agent, "http", "get").outcome)
        with self.assertRaises(faramesh.DenyError) as caught:
            faramesh.govern(self.agent, "shell", "run")
        self.assertEqual(("RULE_DENY", "shells are not for agents"), (caught.exception.reason_code, caught.exception.reason))
        with self.assertRaises(faramesh.DeferredError):
            faramesh.govern(self.agent, "pay", "charge")

    def test_replay_of_a_decision(self):
        started = self.permitted(n=3)
        faramesh.start_action(started["id"])
        self.finish(started)
        approved = self.deferred(n=4)
        with gateway.acting(gateway.APPROVER):
            faramesh.approve_action(approved["id"])
        for action in (self.permitted(), self.denied(), self.deferred(), started, approved):
            with self.subTest(action["status"]):
                self.assertEqual([], faramesh.replay_decision(action_id=action["id"]).mismatches)
                self.assertTrue(faramesh.replay_decision(provenance_id=action["provenance_id"]).success)

    def test_replay_of_an_action(self):
        action = self.permitted()
        again = faramesh.replay_action(action["id"])
        self.assertNotEqual(action["id"], again["id"])
        self.assertEqual({"replayed_from": action["id"], "replay": True}, again["context"])
        with self.assertRaises(faramesh.FarameshError):
            faramesh.replay_action(self.denied()["id"])


class Errors(Case):
    def test_authentication(self):
        for key in ("wrong", gateway.AGENT[:-1], gateway.AGENT + "0", "yett_000000000000_" + "0" * 49):
            gateway.use(key)
            for call in (lambda: self.permitted(), lambda: faramesh.list_actions(), lambda: faramesh.get_action("act_x"), lambda: faramesh.gate_decide(self.agent, "http", "get")):
                with self.subTest(key), self.assertRaisesRegex(faramesh.FarameshAuthError, "401.*unauthenticated"):
                    call()
        with gateway.environment():
            gateway.use(None)
            with self.assertRaises(faramesh.FarameshAuthError):
                self.permitted()

    def test_scope(self):
        gateway.use(gateway.APPROVER)
        for call in (lambda: self.permitted(), lambda: faramesh.gate_decide(self.agent, "http", "get")):
            with self.assertRaisesRegex(faramesh.FarameshError, "403"):
                call()

    def test_validation(self):
        for agent, tool, operation in (("", "http", "get"), ("a" * 257, "http", "get"), ("a\u202e", "http", "get"), (self.agent, "", "get"), (self.agent, "h\n", "get"), (7, "http", "get")):
            with self.subTest((agent, tool)), self.assertRaises(faramesh.FarameshValidationError) as caught:
                faramesh.submit_action(agent, tool, operation)
            self.assertNotIn("{", str(caught.exception), "detail is one sentence")
        for params in ([1], "x", 7):
            with self.subTest(params), self.assertRaises(faramesh.FarameshValidationError):
                faramesh.submit_action(self.agent, "http", "get", params)

    def test_refused_bodies(self):
        deep = {}
        for _ in range(70):
            deep = {"a": deep}
        for params in (deep, {"a": "x" * (1 << 20)}, {"a": "\ud800"}, {"a": "\x00"}, {1: "a", "1": "b"}, {"a": float("nan")}):
            with self.assertRaises(faramesh.FarameshError):
                faramesh.submit_action(self.agent, "http", "get", params)
        self.assertEqual([], faramesh.list_actions(agent_id=self.agent))

    def test_no_server(self):
        with socket.socket() as taken:  # bound and not listening: refused
            taken.bind(("127.0.0.1", 0))
            gateway.use(gateway.AGENT, base_url="http://127.0.0.1:%d" % taken.getsockname()[1])
            with self.assertRaises(faramesh.FarameshConnectionError):
                self.permitted()

    def test_timeout(self):
        token = self.deferred()["approval_token"]
        gateway.use(gateway.AGENT, timeout=0.2)
        with self.assertRaises(faramesh.FarameshTimeoutError):
            client._make_request("POST", "/v1/defer/status", json_data={"defer_token": token, "wait_seconds": 60})

    def test_sparse_bodies(self):
        for body in ({}, {"params": None, "context": None}, {"params": {}, "_trace": 1, "session_id": "s", "unheard": [1]}):
            action = client._make_request("POST", "/v1/actions", json_data={"agent_id": self.agent, "tool": "http", "operation": "get", **body})
            self.assertEqual(({}, {}), (action["params"], action["context"]))
            payload = {"agent_id": self.agent, "tool": "http", "operation": "get", "params": {}, "context": {}}
            self.assertEqual(faramesh.compute_request_hash(payload), action["request_hash"])

    def test_result_once(self):
        action = self.permitted()
        with self.assertRaisesRegex(faramesh.FarameshError, "409"):
            self.finish(action)
        faramesh.start_action(action["id"])
        self.finish(action)
        with self.assertRaisesRegex(faramesh.FarameshError, "409"):
            self.finish(action)

    def test_other_keys_actions(self):
        action = self.permitted()
        gateway.use(gateway.APPROVER)
        for path in ("start", "result"):
            answer = gateway.post("/v1/actions/%s/%s" % (action["id"], path), gateway.APPROVER, {"success": True})
            self.assertIn(answer.status_code, (403, 404))


class Events(Case):
    def stream(self, **options):
        got = []
        faramesh.stream_events(got.append, timeout=gateway.PATIENCE, **options)
        return got

    def test_created(self):
        action = self.permitted()
        event = self.stream(action_id=action["id"], event_types=["action_created"], stop_after=1)[0]
        self.assertEqual(("action_created", "action.created", action["id"]), (event["event_type"], event["type"], event["action_id"]))
        self.assertIsInstance(event["data"], dict)
        self.assertTrue(event["timestamp"].endswith("Z"))
        self.assertNotIn("approval_token", [m for m, v in event["data"].items() if v])

    def test_live(self):
        seen = []
        join = gateway.background(lambda: seen.extend(self.stream(event_types=["action_created"], stop_after=11)))
        made = set()
        while len(made) < 11 or not seen and len(made) < 2000:
            made.add(self.permitted(n=len(made))["id"])
        join()
        self.assertEqual(11, len(seen))

    def test_backlog(self):
        made = [self.permitted(n=n)["id"] for n in range(12)]
        seen = [event["action_id"] for event in self.stream(stop_after=10)]
        self.assertTrue(set(seen) <= set(made), "ten events of the last actions, oldest first")

    def test_resume(self):
        self.permitted()
        headers = {"Authorization": "Bearer " + gateway.AGENT, "Accept": "text/event-stream"}
        with gateway.requests.get(gateway.URL + "/v1/events", headers=headers, stream=True, timeout=gateway.PATIENCE) as first:
            self.assertEqual((200, "text/event-stream"), (first.status_code, first.headers["Content-Type"].split(";")[0]))
            last = ""
            for line in first.iter_lines(chunk_size=1):
                self.assertFalse(line.startswith(b"event:"), line)
                if line.startswith(b"id:"):
                    last = line[3:].strip().decode()
                if not line and last:
                    break
        following = self.permitted(n=2)["id"]
        with gateway.requests.get(gateway.URL + "/v1/events", headers={**headers, "Last-Event-ID": last}, stream=True, timeout=gateway.PATIENCE) as second:
            for line in second.iter_lines(chunk_size=1):
                if line.startswith(b"id:"):
                    self.assertNotEqual(last, line[3:].strip().decode(), "what was seen does not come again")
                if line.startswith(b"data:") and json.loads(line[5:])["action_id"] == following:
                    return

    def test_authentication(self):
        gateway.use("wrong")
        with self.assertRaisesRegex(faramesh.FarameshConnectionError, "401"):
            self.stream(stop_after=1)


class Policy(Case):
    GOOD = "rules:\n  - {id: reads, tools: [\"http/get\"], effect: permit}\n"
    BAD = "rules:\n  - {id: reads, tools: [\"http/get\"], effect: maybe}\n"

    def test_validate(self):
        self.assertIsInstance(client._make_request("POST", "/v1/policy/validate", json_data={"policy": self.GOOD}), dict)
        for bad in (self.BAD, "rules: [", "", "x: 1", "rules:\n  - {id: r, tools: [\"a\"], effect: permit, when: \"1 +\"}\n"):
            with self.subTest(bad), self.assertRaises(faramesh.FarameshValidationError):
                client._make_request("POST", "/v1/policy/validate", json_data={"policy": bad})
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(self.GOOD)
            file.flush()
            faramesh.validate_policy_file(file.name)

    def test_test(self):
        action = {"agent_id": self.agent, "tool": "http", "operation": "get", "params": {}}
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(self.GOOD)
            file.flush()
            allowed = faramesh.test_policy_against_action(file.name, action)
            denied = faramesh.test_policy_against_action(file.name, {**action, "tool": "shell", "operation": "run"})
        self.assertIn("PERMIT", json.dumps(allowed))
        self.assertNotIn("PERMIT", json.dumps(denied))

    def test_info(self):
        for path, status in (("/health", "healthy"), ("/v1/health", "healthy"), ("/ready", "ready")):
            answer = gateway.requests.get(gateway.URL + path, timeout=gateway.PATIENCE)
            self.assertEqual((200, status), (answer.status_code, answer.json()["status"]), path)
        info = client._make_request("GET", "/v1/policy/info")
        self.assertEqual(self.permitted()["policy_version"], info["policy_version"])
        self.assertEqual(self.permitted()["policy_hash"], info["policy_hash"])


if __name__ == "__main__":
    unittest.main()
