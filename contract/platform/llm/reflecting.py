"""Reflection on a session, by a model."""

import asyncio
from collections.abc import Sequence
from typing import Final

from contract.platform.llm import prompt
from contract.platform.llm.client import Chat
from contract.platform.llm.deriving import derive_as
from contract.platform.llm.outcome import TIMED_OUT, Failed
from contract.platform.llm.prompt import Source
from contract.platform.llm.tasks import Reflection
from contract.platform.reflect import Reflection as Reflected
from contract.platform.reflect import Told, Turn

# The call that closes a session waits for it.
SECONDS: Final = 200.0


async def reflect(chat: Chat, turns: Sequence[Turn], key: str | None) -> Told | Failed:
    """What a model makes of a session; of a long one it is shown the end, where it shows how it went."""
    sources = [Source(turn.role, turn.content) for turn in turns]
    try:
        async with asyncio.timeout(SECONDS):
            told = await derive_as(Reflection, chat, "reflect", prompt.batches(sources)[-1], key)
    except TimeoutError:
        return TIMED_OUT
    if isinstance(told, Failed):
        return told
    reflection = Reflected(
        told.outcome, told.should_record_episode, told.retry_feedback, [], told.summary, list(told.learned)
    )
    return Told(len(turns), reflection)
