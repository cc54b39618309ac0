// How JavaScript clients of the interface read answers: three shapes of one-shot socket client, axios for HTTP and
// eventsource for the event stream. No such client can be installed from npm, so their ways of reading are written down here.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { randomUUID } from "node:crypto";
import net from "node:net";
import test from "node:test";

const require = createRequire(process.env.YETT_NODE_MODULES + "/");
const axios = require("axios");
const EventSource = require("eventsource");
const { YETT_URL: url, YETT_SOCKET: socket, YETT_AUDIT_SOCKET: wrongSocket, YETT_AGENT_KEY: agentKey, YETT_APPROVER_KEY: approverKey } = process.env;
const patience = 30_000;

// exchange connects, sends text and resolves with what comes until the server ends its side.
// halfClose: the client ends its own side at the first line end, as one of them does.
function exchange(path, text, { halfClose = false } = {}) {
  return new Promise((resolve, reject) => {
    const conn = net.createConnection({ path }, () => conn.write(text));
    let got = "";
    conn.on("data", (chunk) => {
      got += chunk.toString();
      if (halfClose && got.includes("\n")) conn.end();
    });
    conn.on("end", () => resolve(got));
    conn.on("error", reject);
    conn.setTimeout(patience, () => {
      conn.destroy();
      reject(new Error("the server does not end the stream; so far: " + got));
    });
  });
}

// The three shapes. Each gives the effect it would act on, or throws. hangUp makes a client end its side at the first line
// end that otherwise waits: after a line that was no readable govern the server keeps the connection.
const shapes = {
  // Reads to the end of the stream, looks at error first.
  careful: async (path, text, hangUp) => {
    const answer = JSON.parse(await exchange(path, text, { halfClose: hangUp }));
    if (answer.error) throw new Error(answer.error.message ?? "unknown");
    return String(answer.result?.effect ?? "").toUpperCase();
  },
  // Never looks at error and takes a missing effect for a permit.
  careless: async (path, text) => {
    const answer = JSON.parse((await exchange(path, text, { halfClose: true })).trim());
    return ((answer.result || {}).effect || "PERMIT").toUpperCase();
  },
  // Takes every effect it does not know for a permit.
  lenient: async (path, text, hangUp) => {
    const answer = JSON.parse(await exchange(path, text, { halfClose: hangUp }));
    const effect = String(answer.result?.effect ?? "").toUpperCase();
    return ["DENY", "HALT", "DEFER", "ABSTAIN", "PENDING"].includes(effect) ? effect : "PERMIT";
  },
};

const govern = (params) => JSON.stringify({ jsonrpc: "2.0", id: 1, method: "govern", params }) + "\n";
const call = (tool, operation, more = {}) => govern({ agent_id: "agent-" + randomUUID(), tool, operation, args: {}, ...more });

for (const [name, shape] of Object.entries(shapes)) {
  test(`${name} client: decisions`, async () => {
    assert.equal(await shape(socket, call("think", "invoke")), "PERMIT");
    assert.equal(await shape(socket, call("think", "invoke", { tool_id: "think", action_type: "tool_call", principal_token: "" })), "PERMIT");
    assert.equal(await shape(socket, call("shell", "run")), "DENY");
    assert.equal(await shape(socket, call("pay", "charge", { args: { amount: 4 } })), "DEFER");
    assert.equal(await shape(socket, call("unheard", "of")), "DENY");
  });

  const refused = {
    "a key without the scope": [wrongSocket, call("think", "invoke")],
    "a key nobody made": [socket, call("think", "invoke", { api_key: "yett_000000000000_" + "0".repeat(49) })],
    "no agent": [socket, govern({ tool: "think", operation: "invoke", args: {} })],
    "no tool": [socket, govern({ agent_id: "a", args: {} })],
    "an agent that is a number": [socket, govern({ agent_id: 7, tool: "think", args: {} })],
    "an agent that cannot be seen": [socket, call("think", "invoke", { agent_id: "a\u200b" })],
    "args that are a list": [socket, call("think", "invoke", { args: [] })],
    "params that are a list": [socket, govern([1])],
    "no params": [socket, JSON.stringify({ jsonrpc: "2.0", id: 1, method: "govern" }) + "\n"],
    "a name twice": [socket, '{"jsonrpc":"2.0","id":1,"method":"govern","params":{"agent_id":"a","tool":"think","args":{"a":1,"a":2}}}\n', true],
    "no JSON": [socket, '{"jsonrpc":"2.0","id":1,"method":"govern","params":{"agent_id":"a","tool":"think","args":{"a":NaN}}}\n', true],
    "half a line of JSON": [socket, '{"jsonrpc":"2.0","id":1,"method":"govern","params":{\n', true],
    "too deep": [socket, call("think", "invoke", { args: JSON.parse('{"a":'.repeat(70) + "1" + "}".repeat(70)) }), true],
    "a lone surrogate": [socket, call("think", "invoke", { args: { a: "\ud800" } }), true],
    "too long": [socket, call("think", "invoke", { args: { a: "x".repeat(5 << 20) } }), true],
    "another version": [socket, JSON.stringify({ jsonrpc: "1.0", id: 1, method: "govern", params: { agent_id: "a", tool: "think", args: {} } }) + "\n", true],
  };
  for (const [what, [path, text, hangUp]] of Object.entries(refused)) {
    test(`${name} client: ${what} is no permit`, async () => {
      let effect = "refused";
      try {
        effect = await shape(path, text, hangUp);
      } catch (error) {
        assert.doesNotMatch(error.message, /does not end the stream/);
      }
      assert.notEqual(effect, "PERMIT");
    });
  }
}

const http = axios.create({ baseURL: url, timeout: patience, headers: { "Content-Type": "application/json", Authorization: "Bearer " + agentKey } });
const problem = async (request) => {
  const error = await request.then((answer) => assert.fail("status " + answer.status), (error) => error);
  assert.equal(typeof error.response.data.detail, "string");
  return error.response.status;
};

test("axios: an action's life", async () => {
  const agent = "agent-" + randomUUID();
  const submit = (tool, operation) => http.request({ method: "POST", url: "/v1/actions", data: { agent_id: agent, tool, operation, params: { amount: 2.5 }, context: {} } }).then((answer) => answer.data);
  assert.equal((await submit("shell", "run")).status, "denied");
  const asked = await submit("pay", "charge");
  assert.equal(asked.status, "pending_approval");
  const approver = { headers: { Authorization: "Bearer " + approverKey } };
  const seen = (await http.get(`/v1/actions/${asked.id}`, approver)).data;
  assert.equal((await http.post(`/v1/actions/${asked.id}/approval`, { token: seen.approval_token, approve: true }, approver)).data.status, "approved");
  assert.equal((await http.request({ method: "POST", url: `/v1/actions/${asked.id}/start`, data: undefined })).data.status, "executing");
  assert.equal((await http.post(`/v1/actions/${asked.id}/result`, { success: true, result: { ok: 1 } })).data.status, "succeeded");
  const rows = (await http.request({ method: "GET", url: "/v1/actions", params: { limit: 20, offset: 0, agent_id: agent } })).data;
  assert.deepEqual(rows.map((row) => row.status), ["succeeded", "denied"]);
  assert.equal(await problem(http.get("/v1/actions/act_00000000000000000000000000")), 404);
  assert.equal(await problem(http.post(`/v1/actions/${asked.id}/start`)), 409);
  assert.equal(await problem(http.post("/v1/actions", { agent_id: "", tool: "t", operation: "o" })), 422);
  assert.equal(await problem(http.get("/v1/actions", { headers: { Authorization: "Bearer x" } })), 401);
});

test("fetch: evaluate", async () => {
  for (const [tool, effect] of [["think/invoke", "PERMIT"], ["shell/run", "DENY"], ["pay/charge", "DEFER"]]) {
    const answer = await fetch(url + "/v1/evaluate", {
      method: "POST",
      headers: { "Content-Type": "application/json", Authorization: "Bearer " + agentKey },
      body: JSON.stringify({ agent_id: "agent-" + randomUUID(), tool_id: tool, action_type: "tool_call", args: { n: 1 } }),
    });
    assert.equal(answer.status, 200);
    assert.equal((await answer.json()).effect, effect);
  }
});

test("eventsource: unnamed events", async () => {
  const made = (await http.post("/v1/actions", { agent_id: "agent-" + randomUUID(), tool: "http", operation: "get", params: { url: "u" }, context: {} })).data;
  const source = new EventSource(url + "/v1/events", { headers: { Authorization: "Bearer " + agentKey } });
  try {
    const event = await new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new Error("no event")), patience);
      source.onmessage = (message) => {
        const data = JSON.parse(message.data);
        if (data.action_id !== made.id) return;
        clearTimeout(timer);
        resolve(data);
      };
      source.onerror = (error) => reject(new Error("stream: " + error.message));
    });
    assert.equal(event.event_type, "action_created");
    assert.equal(event.type, "action.created");
  } finally {
    source.close();
  }
});
