"""`python -m gateway` is `brains-gateway`."""

from gateway.cli.main import main

main()
