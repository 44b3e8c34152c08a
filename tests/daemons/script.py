"""What a language model says: one script for the fake daemon and for the stub the real daemon talks to."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Script:
    """Lines of a language model; every token is a piece of its own, `delay` seconds after the last."""

    tokens: list[str] = field(default_factory=lambda: ["The ", "answer ", "is ", "here."])
    fails: bool = False
    """The provider refuses before the first token."""
    cut_after: int | None = None
    """The stream ends without a word after so many tokens."""
    delay: float = 0.0
    memories: list[dict[str, Any]] = field(default_factory=list)
    """What extraction finds, with the keys of the daemons: filename, name, description, type, content, indexEntry."""
    reflection: dict[str, Any] | None = None
    """What reflection finds: outcome, summary, retryFeedback, shouldRecordEpisode, openQuestions, heuristics."""
    prose: bool = False
    """Extraction and reflection are answered with a sentence, not with JSON."""

    said: int = 0
    """How many tokens have been spoken so far, in all answers."""

    def spoken(self) -> list[str]:
        return self.tokens if self.cut_after is None else self.tokens[: self.cut_after]
