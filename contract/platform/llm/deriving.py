"""Deriving: a task of the list, its sources, and a result in the form of that task."""

from collections.abc import Sequence
from typing import Final, TypeVar

from contract.platform.llm import prompt
from contract.platform.llm.client import Chat, Message
from contract.platform.llm.outcome import NO_JSON, Failed
from contract.platform.llm.prompt import Prompt, Source
from contract.platform.llm.tasks import TASKS, Form, Task, read

# The caller waits for all of them, one after the other.
MOST_CALLS: Final = 4
# Of what was wrong, so much is shown to the model again.
_WRONG_CHARACTERS: Final = 4_000

F = TypeVar("F", bound=Form)


async def derive_as(form: type[F], chat: Chat, name: str, sources: Sequence[Source], key: str | None) -> F | Failed:
    """One call, and one more where the first did not keep to the form."""
    asking = Prompt(name)
    messages: list[Message] = asking.messages(sources)
    said = await chat.complete(name, messages, key, TASKS[name].tokens, fence=asking.fence)
    if isinstance(said, Failed):
        return said
    result = read(said, form)
    if result is None:
        wrong: Message = {"role": "assistant", "content": said[:_WRONG_CHARACTERS] or "-"}
        asked: list[Message] = [*messages, wrong, {"role": "user", "content": prompt.text("repair")}]
        again = await chat.complete(name, asked, key, TASKS[name].tokens, fence=asking.fence)
        if isinstance(again, Failed):
            return again
        result = read(again, form)
    return result if isinstance(result, form) else NO_JSON


async def derive(chat: Chat, name: str, sources: Sequence[Source], key: str | None) -> tuple[Form, int] | Failed:
    """The result of a task, and how many parts of the sources were left out."""
    task = TASKS[name]
    whole = prompt.batches(sources)
    shown = _shown(task, whole)
    results: list[Form] = []
    for batch in shown:
        result = await derive_as(task.form, chat, name, batch, key)
        if isinstance(result, Failed):
            return result
        results.append(result)
    return _joined(task, results), sum(map(len, whole)) - sum(map(len, shown))


def _shown(task: Task, whole: list[list[Source]]) -> list[list[Source]]:
    if task.joins:
        return whole[:MOST_CALLS]
    return whole[-1:] if task.ends else whole[:1]


def _joined(task: Task, results: list[Form]) -> Form:
    if not task.joins:
        return results[0]
    joined = [one for result in results for one in getattr(result, task.joins)]
    return results[0].model_copy(update={task.joins: joined})
