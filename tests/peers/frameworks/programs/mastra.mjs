// An agent of Mastra.
import { Agent } from '@mastra/core/agent'
import { MCPClient } from '@mastra/mcp'

const { MCP_URL, MCP_COMMAND } = process.env
const [command, ...args] = JSON.parse(MCP_COMMAND ?? '[]')
const server = command ? { command, args, env: process.env } : { url: new URL(MCP_URL) }
const client = new MCPClient({ servers: { brains: server } })
const agent = new Agent({
  id: 'peer',
  name: 'peer',
  instructions: 'Use the tools.',
  model: { id: 'stub/scripted', url: `${process.env.MODEL_URL}/v1`, apiKey: 'none' },
  tools: await client.listTools(),
})
const done = await agent.generate('Begin.', { maxSteps: 20 })
process.stdout.write(done.text)
await client.disconnect()
