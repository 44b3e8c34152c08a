"""What a scripted language model says: it answers from the first note that it is shown, and derives what fits."""

import re
from typing import Any

from contract.platform.llm import prompt
from contract.platform.llm.tasks import TASKS
from tests.models import Turn, say, say_json

FIRST = re.compile(r"<<< \w+ piece 1\n[^\n]*\n(.+?)\n>>> ", re.DOTALL)
RESULTS: dict[str, dict[str, Any]] = {
    "classify_episode": {"episode_type": "bug_fix"},
    "entities": {"entities": [{"name": "Tea", "type": "other"}]},
    "title": {"title": "Of tea"},
    "digest": {"digest": "Tea, and water."},
    "facts": {"facts": []},
    "scenes": {"scenes": [{"action": "Tea was made.", "actors": ["Maya"], "when": ["2026-01-31"]}]},
    "reflect": {"outcome": "success", "summary": "Tea was made.", "learned": [], "should_record_episode": True},
    "consolidate": {"actions": []},
}


def reads_and_answers(asked: dict[str, Any]) -> Turn:
    """Each answer of the model, from what it is told in the call alone."""
    system, shown = asked["messages"][0]["content"], asked["messages"][-1]["content"]
    for task in TASKS:
        if system.startswith(prompt.text(task)):
            return say_json(RESULTS[task])
    found = FIRST.search(shown)
    lines = [line for line in found[1].splitlines() if line.strip(" #")] if found else []
    return say(f"{lines[-1].strip(' #')} [1]." if lines else "ok")
