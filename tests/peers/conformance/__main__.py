"""python -m tests.peers.conformance     runs the suite and writes the record that the README's table is made from"""

import json
import logging
import sys
import tempfile
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from gateway.app import log
from gateway.surfaces.catalog import SURFACES
from tests.peers.conformance.suite import RECORD, WIRES, Way, Wire, card, ran, row, scored, surprises, version
from tests.peers.conformance.ways import behind_auth, fixtures, production


def measured(folder: Path) -> dict[str, Any]:
    with ExitStack() as stack:
        served = stack.enter_context(production(_inside(folder, "production")))
        targets: list[tuple[Way, str]] = [("production", f"{served}/{surface}/mcp") for surface in SURFACES]
        targets.append(("fixtures", stack.enter_context(fixtures(_inside(folder, "fixtures")))))
        targets.append(("fixtures behind auth", stack.enter_context(behind_auth(_inside(folder, "auth")))[0]))
        return {
            "suite": version(),
            "wires": {wire: {"scored": len(scored(wire)), **_cards(wire, targets, folder)} for wire in WIRES},
        }


def _cards(wire: Wire, targets: list[tuple[Way, str]], folder: Path) -> dict[str, Any]:
    cards: dict[str, Any] = {}
    for number, (way, url) in enumerate(targets):
        run = ran(url, wire, way, _inside(folder, f"{wire}-{number}"))
        if differing := surprises(run, wire, way):
            raise SystemExit("\n".join([f"{wire}, {way}, at {url}:", *differing]))
        made = row(card(run, wire, way))
        if cards.setdefault(way, made) != made:
            raise SystemExit(f"{wire}: the production surfaces differ: {cards[way]} and {made} at {url}")
    return cards


def _inside(folder: Path, name: str) -> Path:
    (folder / name).mkdir()
    return folder / name


if __name__ == "__main__":
    # What the fixtures fail at is on the card.
    logging.disable()
    log.configure("error", "text")
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as directory:
        record = measured(Path(directory))
    RECORD.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write(json.dumps(record, indent=2) + "\nNow: python -m tests.docs\n")
