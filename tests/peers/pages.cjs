// Preloaded into a daemon: what it fetches from http://pages.example comes from a server on loopback.
const { PAGES_URL } = process.env
const beyond = globalThis.fetch
globalThis.fetch = (page, options) => beyond(String(page).replace('http://pages.example', PAGES_URL), options)
