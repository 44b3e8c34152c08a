// An OAuth provider on loopback: node provider.mjs PORT KEYS_FILE [ISSUER]. Whoever comes is logged in and consents.
// The keys file is made if it is not there, so that a provider that is started again has the keys of before.
// Tests steer it: POST /steer {ttl, claims, clock, clientId} for what is issued from now on, POST /rotate {keep} for another
// key, with or without those of before. Both say how often the keys were asked for.
import { generateKeyPairSync, randomUUID } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'

const [port, keysFile, issuer = `http://127.0.0.1:${port}`] = process.argv.slice(2)
const SCOPES = ['brains:read', 'brains:write', 'brains:admin']
const DEFAULTS = { ttl: 600, claims: {}, clock: 0, clientId: null }
const ROBOT = {
  client_id: 'robot',
  client_secret: 'robot-secret',
  grant_types: ['client_credentials'],
  response_types: [],
  redirect_uris: [],
}
let steered = DEFAULTS

// Its clock can be wrong, by seconds: the only honest way to a token that has expired.
const now = Date.now
Date.now = () => now() + steered.clock * 1000

const { Provider } = await import('oidc-provider')

function newKey(kid) {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  return { ...privateKey.export({ format: 'jwk' }), kid, use: 'sig', alg: 'RS256' }
}

function savedKeys(keys) {
  writeFileSync(keysFile, JSON.stringify(keys))
  return keys
}

// The first one signs; all are published.
let keys = existsSync(keysFile) ? JSON.parse(readFileSync(keysFile, 'utf8')) : savedKeys([newKey('key-1')])
let keyRequests = 0

const configuration = () => ({
  jwks: { keys },
  cookies: { keys: ['not a secret'] },
  clients: [ROBOT],
  scopes: ['openid', 'offline_access', ...SCOPES],
  pkce: { required: () => true },
  findAccount: (_ctx, sub) => ({ accountId: sub, claims: () => ({ sub }) }),
  extraTokenClaims: () => steered.claims,
  issueRefreshToken: (_ctx, client) => client.grantTypeAllowed('refresh_token'),
  interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
  ttl: {
    AccessToken: () => steered.ttl,
    ClientCredentials: () => steered.ttl,
    RefreshToken: 3600,
    IdToken: 600,
    Interaction: 600,
    Session: 3600,
    Grant: 3600,
  },
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    registration: { enabled: true, idFactory: () => steered.clientId ?? randomUUID() },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (_ctx, audience) => ({
        audience,
        scope: SCOPES.join(' '),
        accessTokenFormat: 'jwt',
        jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
})

// What is stored, logins and clients, is the module's: it stays when the provider is made anew with other keys.
let provider = new Provider(issuer, configuration())
let serve = provider.callback()

async function consented(details) {
  const { params, grantId, session } = details
  const { missingOIDCScope = [], missingResourceScopes = {} } = details.prompt.details
  const grant = grantId
    ? await provider.Grant.find(grantId)
    : new provider.Grant({ accountId: session.accountId, clientId: params.client_id })
  if (missingOIDCScope.length) grant.addOIDCScope(missingOIDCScope.join(' '))
  for (const [resource, scopes] of Object.entries(missingResourceScopes)) grant.addResourceScope(resource, scopes.join(' '))
  return { consent: { grantId: await grant.save() } }
}

async function interact(request, response) {
  const details = await provider.interactionDetails(request, response)
  const isLogin = details.prompt.name === 'login'
  const result = isLogin ? { login: { accountId: details.params.login_hint ?? 'ada' } } : await consented(details)
  await provider.interactionFinished(request, response, result)
}

const bodyOf = async (request) => JSON.parse(Buffer.concat(await request.toArray()).toString() || '{}')

async function register(request, response) {
  // Clients name the scopes they know of when they register. Held to those for good, they could never step up.
  const { scope, ...wanted } = await bodyOf(request)
  request.body = wanted
  return serve(request, response)
}

async function steer(request, response) {
  const said = await bodyOf(request)
  if (request.url === '/steer') {
    steered = { ...DEFAULTS, ...said }
  } else {
    keys = savedKeys([newKey(`key-${Number(keys[0].kid.slice(4)) + 1}`), ...(said.keep ? keys : [])])
    provider = new Provider(issuer, configuration())
    serve = provider.callback()
  }
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ keyRequests }))
}

function answer(request, response) {
  if (request.url === '/steer' || request.url === '/rotate') return steer(request, response)
  if (request.url.startsWith('/interaction/')) return interact(request, response)
  if (request.url === '/reg' && request.method === 'POST') return register(request, response)
  if (request.url === '/jwks') keyRequests += 1
  return serve(request, response)
}

const server = createServer((request, response) => {
  Promise.resolve(answer(request, response)).catch((error) => {
    console.error(error)
    if (!response.headersSent) response.writeHead(500)
    response.end(String(error))
  })
})
process.on('SIGTERM', () => process.exit(0))
server.listen(Number(port), '127.0.0.1', () => console.error('listening'))
