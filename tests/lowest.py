"""Pins of the lowest versions that are declared, for `pip install -c`: only what was tested may be promised.

`python -m tests.lowest > lowest.txt`, then `pip install -c lowest.txt -e '.[dev]'` in an environment of its own. It
needs nothing but Python, so that it runs before anything is installed. What nobody declared is left to pip.
"""

import re
import sys
import tomllib
from pathlib import Path

_PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"
_REQUIREMENT = re.compile(r"(?P<name>[\w.-]+)>=(?P<version>[\w.]+)")


def pins(pyproject: str) -> list[str]:
    """A pin for each requirement. Raises ValueError for one without a lower bound."""
    project = tomllib.loads(pyproject)["project"]
    made = []
    for line in [*project["dependencies"], *project["optional-dependencies"]["dev"]]:
        requirement = _REQUIREMENT.match(line)
        if requirement is None:
            raise ValueError(f"{line} has no lower bound")
        made.append(f"{requirement['name']}=={requirement['version']}")
    return sorted(made, key=str.lower)


if __name__ == "__main__":
    sys.stdout.write("\n".join(pins(_PYPROJECT.read_text(encoding="utf-8"))) + "\n")
