// Logs in with the TypeScript SDK: node login_client.mjs 1|2 URL [CLIENT_METADATA_URL [PRIVATE_JWK]]
// Writes the address that a browser is to open as one line, reads the address that the browser was sent back to, and
// writes one JSON object: how the program is known, the tools, and whether a token that was refreshed is as good.
import { createInterface } from 'node:readline'

const [version, url, metadataUrl, privateKey] = process.argv.slice(2)
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const redirectUrl = 'http://127.0.0.1:9/callback'
const kept = {}

const provider = {
  redirectUrl,
  clientMetadataUrl: metadataUrl,
  clientMetadata: { client_name: 'peer', redirect_uris: [redirectUrl], grant_types: ['authorization_code', 'refresh_token'] },
  state: () => 'a state',
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
  redirectToAuthorization: (address) => void process.stdout.write(`${address}\n`),
  saveDiscoveryState: (state) => void (kept.discovery = state),
  discoveryState: () => kept.discovery,
}

async function parts() {
  if (version === '2') return import('@modelcontextprotocol/client')
  const { Client } = await import('@modelcontextprotocol/sdk/client/index.js')
  const { createPrivateKeyJwtAuth } = await import('@modelcontextprotocol/sdk/client/auth-extensions.js')
  return { Client, createPrivateKeyJwtAuth, ...(await import('@modelcontextprotocol/sdk/client/streamableHttp.js')) }
}

const { Client, StreamableHTTPClientTransport, createPrivateKeyJwtAuth } = await parts()
if (privateKey) {
  const names = { issuer: metadataUrl, subject: metadataUrl }
  provider.addClientAuthentication = createPrivateKeyJwtAuth({ ...names, privateKey: JSON.parse(privateKey), alg: 'ES256' })
}

async function connected() {
  const client = new Client({ name: 'peer', version: '1' })
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider })
  try {
    await client.connect(transport)
    return client
  } catch (error) {
    if (!String(error?.name ?? error).includes('Unauthorized') && !String(error).includes('Unauthorized')) throw error
    const back = new URL((await lines.next()).value)
    if (back.searchParams.get('state') !== 'a state') throw new Error('another state')
    await transport.finishAuth(version === '2' ? back.searchParams : back.searchParams.get('code'))
    return connected()
  }
}

const client = await connected()
const before = kept.tokens
// A token that is refused makes the SDK refresh it.
kept.tokens = { ...before, access_token: 'made up' }
const { tools } = await client.listTools()
process.stdout.write(
  JSON.stringify({
    client_id: kept.client.client_id,
    tools: tools.map((tool) => tool.name),
    refreshed: kept.tokens.access_token !== 'made up' && kept.tokens.refresh_token !== before.refresh_token,
  }) + '\n',
)
process.exit(0)
