// Drives a server with the TypeScript SDK: node client.mjs ERA TRANSPORT TARGET… ; steps as JSON on stdin.
// Writes one JSON object: the protocol version, the tools, and each step's result, with the progress that the SDK told
// of and all that came over the wire. Those differ: the SDK loses notes that arrive in one piece with the result.
import { readFileSync } from 'node:fs'

const [era, transport, ...target] = process.argv.slice(2)
const steps = JSON.parse(readFileSync(0, 'utf8'))
const wire = []

// Whoever is there before the client is told of every message first.
function recorded(made) {
  made.onmessage = (message) => wire.push(message)
  return made
}

async function connected() {
  if (era === 'modern') {
    const sdk = await import('@modelcontextprotocol/client')
    const stdio = await import('@modelcontextprotocol/client/stdio')
    const client = new sdk.Client({ name: 'peer', version: '1' }, { versionNegotiation: { mode: 'auto' } })
    await client.connect(
      recorded(
        transport === 'http'
          ? new sdk.StreamableHTTPClientTransport(new URL(target[0]))
          : new stdio.StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env, stderr: 'ignore' }),
      ),
    )
    return client
  }
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js')
  const http = await import('@modelcontextprotocol/sdk/client/streamableHttp.js')
  const stdio = await import('@modelcontextprotocol/sdk/client/stdio.js')
  const client = new Client({ name: 'peer', version: '1' })
  await client.connect(
    recorded(
      transport === 'http'
        ? new http.StreamableHTTPClientTransport(new URL(target[0]))
        : new stdio.StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env, stderr: 'ignore' }),
    ),
  )
  return client
}

async function called(client, { name, arguments: args }) {
  const progress = []
  wire.length = 0
  const options = { onprogress: (note) => progress.push(note) }
  const params = { name, arguments: args }
  const result = era === 'modern' ? await client.callTool(params, options) : await client.callTool(params, undefined, options)
  return { result, progress, wire: [...wire] }
}

const client = await connected()
const { tools } = await client.listTools()
const results = []
for (const step of steps) results.push(await called(client, step))
process.stdout.write(JSON.stringify({ tools, results, protocol: client.getNegotiatedProtocolVersion?.() }))
await client.close()
