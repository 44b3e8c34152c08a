"""`search`, `ask` and `add`: what the tools of agents do, for a person at a terminal."""

import argparse
import sys
from contextlib import aclosing
from pathlib import Path

from gateway.app.desk import Desk
from gateway.app.startup import CannotStart, say
from gateway.cli.output import hit_row, print_json, print_rows, print_text, printable
from gateway.operations.errors import GatewayError
from gateway.operations.table import JsonObject


async def search(desk: Desk, arguments: argparse.Namespace) -> None:
    _check_words(arguments.query, "to look for")
    query = {
        "query": arguments.query,
        "top_k": arguments.limit,
        "scope": arguments.scope,
        "sort": "recency" if arguments.newest else None,
    }
    answer = await desk.brain.search(desk.call(), None, query)
    if arguments.json:
        print_json(answer)
    elif answer["hits"]:
        print_rows(("NOTE", "SCORE", "BEGINS"), [hit_row(hit) for hit in answer["hits"]])
    else:
        say("Nothing found.")


async def ask(desk: Desk, arguments: argparse.Namespace) -> None:
    """Print an answer as it comes, and then its sources."""
    _check_words(arguments.question, "to answer")
    said, note, found, cited = "", None, list[JsonObject](), set[str]()
    async with aclosing(desk.ask(arguments.question, arguments.limit)) as coming:
        async for frame in (frame async for frames in coming for frame in frames):
            if frame["type"] == "answer_delta":
                said += (delta := str(frame.get("delta", "")))
                if not arguments.json:
                    sys.stdout.write(printable(delta))
                    sys.stdout.flush()
            elif frame["type"] == "retrieve":
                found = [chunk for chunk in frame.get("chunks") or () if isinstance(chunk, dict)]
            elif frame["type"] == "citation":
                cited.add(str(frame.get("chunk_id")))
            note = frame.get("note") or note
    if arguments.json:
        print_json({"answer": said, "sources": found, "cited": sorted(cited), **({"note": note} if note else {})})
        return
    sys.stdout.write("\n")
    drawn = [chunk for chunk in found if chunk.get("chunk_id") in cited] or found
    if drawn:
        paths = dict.fromkeys(f"  {chunk.get('path') or chunk.get('document_id')}" for chunk in drawn)
        print_text("\n".join(["\nFrom:" if cited else "\nFound, but not cited:", *paths]), "dim")
    if note:
        print_text(f"({note})", "dim")


async def add(desk: Desk, arguments: argparse.Namespace) -> None:
    """Store a text, a file, a page, or standard input."""
    if arguments.url is not None:
        answer = await desk.brain.ingest_url(desk.call(), None, arguments.url)
        stored = answer.get("result") or answer.get("document") or {}
    elif arguments.file is not None:
        stored = await desk.ingest(arguments.file)
    else:
        text = arguments.text if arguments.text not in (None, "-") else _standard_input()
        _check_words(text, "to store")
        stored = await desk.brain.remember(desk.call(), None, text, arguments.title, arguments.tag, arguments.path)
    if arguments.json:
        print_json(stored)
        return
    say("Already stored." if stored.get("reused") else "Queued." if stored.get("status") == "queued" else "Stored.")
    sys.stdout.write(f"{printable(str(stored.get('path', '')), one_line=True)}\n")


def _check_words(text: str, wanted: str) -> None:
    if not text.strip():
        raise GatewayError("validation_error", f"There is nothing {wanted}: the text is empty.")


def _standard_input() -> str:
    try:
        return sys.stdin.buffer.read().decode()
    except UnicodeDecodeError:
        raise CannotStart("Standard input is no text in UTF-8. Add a file with --file.") from None


def roots_for(arguments: argparse.Namespace) -> tuple[Path, ...] | None:
    """The root for a file that a person names at a terminal: its own directory."""
    file = getattr(arguments, "file", None) if arguments.command == "add" else None
    if file is None:
        return None
    arguments.file = file.resolve()
    return (arguments.file.parent,)
