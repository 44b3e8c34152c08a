// An agent of Mastra.
import { Agent } from '@mastra/core/agent'
import { MCPClient } from '@mastra/mcp'

const client = new MCPClient({ servers: { brains: { url: new URL(process.env.MCP_URL) } } })
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
