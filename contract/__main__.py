"""`python -m contract`: the harness without the gateway."""

import sys

from contract.command import main

if __name__ == "__main__":
    sys.exit(main())
