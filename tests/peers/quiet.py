"""What keeps programs of others to this machine while they are tested."""

from typing import Final

# What they want from the web they do not get.
LOOPBACK_ONLY: Final = {
    "NO_PROXY": "127.0.0.1,localhost",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
    "DO_NOT_TRACK": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "true",
}
