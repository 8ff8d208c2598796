// Drives OpenClaw's published client: reads instructions as JSON lines from stdin and writes what the client receives to stdout.
// {"connect": {url, token, ...options}}, {"request": {id, method, params, options}}, {"stop": true}
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";
import { createRequire } from "node:module";

const packages = createRequire(`${process.argv[2]}/package.json`);
const { GatewayClient } = await import(pathToFileURL(packages.resolve("@openclaw/gateway-client")).href);

const tell = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
let client;

function connect(options) {
  client = new GatewayClient({
    ...options,
    onHelloOk: (hello) => tell({ hello }),
    onConnectError: (error) => tell({ refused: error.message }),
    onEvent: (frame) => tell({ event: frame.event, payload: frame.payload, seq: frame.seq }),
    onGap: (gap) => tell({ gap }),
    onClose: (code, reason) => tell({ closed: code, reason: String(reason) }),
  });
  client.start();
}

async function request({ id, method, params, options }) {
  try {
    tell({ id, payload: await client.request(method, params, options) });
  } catch (error) {
    tell({ id, error: error.message, code: error.gatewayCode ?? error.code, details: error.details });
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const said = JSON.parse(line);
  if (said.connect) connect(said.connect);
  else if (said.request) request(said.request);
  else if (said.stop) client?.stop();
}
client?.stop();
