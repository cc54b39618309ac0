// A client made of the first generation of the public SDK. It prints one line of JSON: what it saw.
// How it connects stands in the environment: see clients.go.
import { createRequire } from 'node:module';

const require = createRequire(process.env.YETT_SDK_MODULES + '/package.json');
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
const { ElicitRequestSchema } = require('@modelcontextprotocol/sdk/types.js');

const ask = JSON.parse(process.env.YETT_SDK_ASK);
const saw = { tools: [], answers: [], progress: 0, elicited: [] };
let changes = 0;
let changed = () => {};
const client = new Client(
  { name: 'yett-node1', version: '1.0.0' },
  {
    capabilities: ask.plain ? {} : { elicitation: { form: {}, url: {} } },
    listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: () => { changes++; changed(); } } },
  },
);
if (!ask.plain) client.setRequestHandler(ElicitRequestSchema, async (request) => {
  saw.elicited.push(request.params.url ?? request.params.message);
  return { action: 'accept', content: request.params.mode === 'url' ? undefined : { colour: 'red' } };
});
const transport = ask.command
  ? new StdioClientTransport({ command: ask.command[0], args: ask.command.slice(1), env: { ...process.env, ...ask.env } })
  : new StreamableHTTPClientTransport(new URL(ask.url), { requestInit: { headers: ask.header } });
await client.connect(transport);
saw.server = client.getServerVersion()?.name ?? '';
saw.version = transport.protocolVersion ?? '';
let page;
do {
  page = await client.listTools(page?.nextCursor ? { cursor: page.nextCursor } : {});
  saw.tools.push(...page.tools.map((tool) => tool.name));
} while (page.nextCursor);
for (const call of ask.calls ?? []) {
  try {
    const abort = new AbortController();
    const result = await client.callTool({ name: call.name, arguments: call.arguments }, undefined, {
      signal: abort.signal,
      onprogress: () => { saw.progress++; if (call.cancel) abort.abort('the test cancels'); },
    });
    saw.answers.push({ name: call.name, isError: result.isError === true, text: result.content.map((c) => c.text).join('') });
  } catch (error) {
    saw.answers.push({ name: call.name, thrown: true, code: typeof error.code === 'number' ? error.code : 0, text: String(error.message ?? error) });
  }
}
if (ask.change) { // the notification may have come before the answer
  await client.callTool({ name: ask.change, arguments: {} });
  if (changes === 0) await new Promise((resolve) => { changed = resolve; });
}
saw.changes = changes;
await client.close();
console.log(JSON.stringify(saw));
process.exit(0);
