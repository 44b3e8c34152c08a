"""Serves the embedded brain as a platform without a model, to measure writes without vectors.

With `--vectors` it has the models that come with the gateway, to compare.
"""

import argparse
from pathlib import Path

from contract.platform.meaning.offline import OfflineEmbedder
from contract.platform.meaning.sentence import SentenceEmbedder
from contract.platform.store import Store
from gateway.app.embedded import platform_server
from gateway.app.startup import listening_socket
from gateway.app.stopping import run_until_stopped

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--vectors", action="store_true")
    given = parser.parse_args()
    models = (OfflineEmbedder(), SentenceEmbedder()) if given.vectors else (None, None)
    store = Store.open(given.data_dir, models[0], sentences=models[1])
    try:
        run_until_stopped(platform_server(store, None, None), [listening_socket("127.0.0.1", given.port)])
    finally:
        store.close()
