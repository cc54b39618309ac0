// A client made of the second generation of the public SDK. It prints one line of JSON: what it saw.
// How it connects stands in the environment: see clients.go.
import { createRequire } from 'node:module';

const require = createRequire(process.env.YETT_SDK_MODULES + '/package.json');
const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');

const ask = JSON.parse(process.env.YETT_SDK_ASK);
const saw = { tools: [], answers: [], progress: 0, elicited: [] };
let changes = 0;
let changed = () => {};
const client = new Client(
  { name: 'yett-node2', version: '1.0.0' },
  {
    versionNegotiation: { mode: ask.legacy ? 'legacy' : 'auto' },
    capabilities: ask.plain ? {} : { elicitation: { form: {}, url: {} } },
    listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: () => { changes++; changed(); } } },
  },
);
if (!ask.plain) client.setRequestHandler('elicitation/create', async (request) => {
  saw.elicited.push(request.params.url ?? request.params.message);
  return { action: 'accept', content: request.params.mode === 'url' ? undefined : { colour: 'red' } };
});
const transport = ask.command
  ? new StdioClientTransport({ command: ask.command[0], args: ask.command.slice(1), env: { ...process.env, ...ask.env } })
  : new StreamableHTTPClientTransport(new URL(ask.url), { requestInit: { headers: ask.header } });
await client.connect(transport);
saw.server = client.getServerVersion()?.name ?? '';
saw.version = client.getNegotiatedProtocolVersion() ?? '';
saw.tools = (await client.listTools()).tools.map((tool) => tool.name); // which reads all pages
for (const call of ask.calls ?? []) {
  try {
    const abort = new AbortController();
    const result = await client.callTool({ name: call.name, arguments: call.arguments }, {
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
