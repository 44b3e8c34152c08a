// An agent of Vercel's AI SDK.
import { createOpenAI } from '@ai-sdk/openai'
import { createMCPClient } from '@ai-sdk/mcp'
import { Experimental_StdioMCPTransport as StdioTransport } from '@ai-sdk/mcp/mcp-stdio'
import { generateText, stepCountIs } from 'ai'

const { MODEL_URL, MCP_URL, MCP_COMMAND } = process.env
const [command, ...args] = JSON.parse(MCP_COMMAND ?? '[]')
const transport = command ? new StdioTransport({ command, args, env: process.env }) : { type: 'http', url: MCP_URL }
const client = await createMCPClient({ transport })
const model = createOpenAI({ baseURL: `${MODEL_URL}/v1`, apiKey: 'none' }).chat('scripted')
const done = await generateText({ model, tools: await client.tools(), prompt: 'Begin.', stopWhen: stepCountIs(20) })
process.stdout.write(done.text)
await client.close()
