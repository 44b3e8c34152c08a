"""`python -m gateway` is `brains-gateway`."""

from gateway.cli import main

main()
