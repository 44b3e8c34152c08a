"""How the gateway is served: with its own bounds on heads, also in worker processes."""

import pickle

import pytest
from starlette.applications import Starlette

from gateway.app.uvicorn_config import uvicorn_config
from gateway.http.connection import Connection


@pytest.mark.parametrize("workers", [1, 2])
def test_heads_are_bounded_in_every_process(workers: int) -> None:
    """The configuration of workers is handed to their processes as it is pickled."""
    made = uvicorn_config(Starlette()) if workers == 1 else uvicorn_config(Starlette, workers)
    config = made if workers == 1 else pickle.loads(pickle.dumps(made))
    assert config.http is Connection
