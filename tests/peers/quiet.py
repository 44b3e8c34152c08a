"""Settings that keep programs of others from reaching the web while they are tested."""

from typing import Final

# No proxy listens at this address, so whatever they ask of the web fails at once.
LOOPBACK_ONLY: Final = {
    "NO_PROXY": "127.0.0.1,localhost",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "DO_NOT_TRACK": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "true",
}
