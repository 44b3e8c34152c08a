"""The cases that need a model, on a platform that has one: they hold, and a result of another form is noticed."""

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.types import ASGIApp

from contract import case
from contract.platform.app import create_app
from contract.platform.llm import prompt
from contract.platform.llm.tasks import TASKS
from contract.platform.store import Store
from tests.broken.wrapping import edits, wrapped
from tests.contract.platform.llm.test_deriving import RESULTS
from tests.contract.targets import check_app, failures
from tests.models import Turn, say, say_json, scripted

CASES = [one for one in case.load() if one.id.startswith("http/stages/derive-") or one.needs == "model"]
BY_TASK = {task: f"http/stages/derive-{task.replace('_', '-')}" for task in TASKS}


@pytest.fixture
def app(tmp_path: Any) -> Iterator[ASGIApp]:
    def result(asked: dict[str, Any]) -> Turn:
        system = asked["messages"][0]["content"]
        results = [RESULTS[task] for task in TASKS if system.startswith(prompt.text(task))]
        return say_json(results[0]) if results else say("In the cellar [1].")

    store = Store.open(tmp_path)
    with scripted() as (model, endpoint):
        model.by_task = result
        yield create_app(store, token=None, llm=endpoint)
    store.close()


def test_every_case_holds_where_there_is_a_model(app: ASGIApp) -> None:
    assert {BY_TASK[task] for task in TASKS} <= {one.id for one in CASES}
    done = check_app(app, CASES, None)
    assert {result.case.id: result.outcome for result in done.results} == {one.id: "passed" for one in CASES}


@pytest.mark.parametrize("task", TASKS)
def test_a_result_of_another_form_is_noticed(app: ASGIApp, task: str) -> None:
    key = next(key for key in RESULTS[task])

    def without(answer: dict[str, Any]) -> dict[str, Any]:
        return {**answer, "results": [{k: v for k, v in one.items() if k != key} for one in answer["results"]]}

    broken = wrapped(app, edits("POST {b}/derive", without))
    done = check_app(broken, [one for one in CASES if one.id == BY_TASK[task]], None)
    assert set(failures(done)) == {BY_TASK[task]}
