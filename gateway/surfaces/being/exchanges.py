"""Scenes from messages: those that a model writes, or by rule one for each exchange.

The history has the full messages.
"""

from collections.abc import Sequence
from typing import Final

from pydantic import ValidationError

from gateway.operations.table import JsonObject
from gateway.surfaces.being import names as paths
from gateway.surfaces.being.history import Said
from gateway.surfaces.being.schema import Scene

# How many exchanges of one call become scenes, the newest ones.
MOST_SCENES: Final = 100
THEME: Final = "conversation"
# How many messages of an exchange a scene holds, and how many characters of each.
_TURNS: Final = 20
_TURN_LENGTH: Final = 400
# Messages of these roles say nothing about what happened.
_NOT_SPEAKING: Final = frozenset({"system", "developer", "tool", "function"})
# Less than what a being tells itself, which is 0.5: the first for a few words, the last for many.
_IMPORTANCE: Final = ((40, 0.2), (400, 0.3))
_MOST_IMPORTANT: Final = 0.4
# How many messages a model gets, and how many characters of each.
_TOLD: Final = 200
_TOLD_LENGTH: Final = 8_000
_ROLES: Final = frozenset({"user", "assistant", "system", "tool"})

Exchange = list[Said]


def exchanges_of(said: Sequence[Said]) -> list[Exchange]:
    """The messages, split where the user speaks again; without a user, where the first speaker speaks again."""
    spoken = [one for one in said if one.role.lower() not in _NOT_SPEAKING and one.content.strip()]
    roles = [one.role for one in spoken]
    opener = "user" if "user" in roles else next(iter(roles), "")
    exchanges: list[Exchange] = []
    for before, one in zip([None, *roles], spoken, strict=False):
        if before is None or (one.role == opener and before != opener):
            exchanges.append([])
        exchanges[-1].append(one)
    return exchanges


def scene_of(exchange: Exchange) -> tuple[str, Scene]:
    """The scene of an exchange, with its id. The id follows from the messages, not from the day of the patrol."""
    told = exchange[:_TURNS]
    length = sum(len(one.content) for one in exchange)
    scene = Scene(
        action="\n".join(f"{_actor(one)}: {_clipped(one.content)}" for one in told),
        actors=list(dict.fromkeys(map(_actor, told))),
        when=sorted({one.day or one.at[:10] for one in told}),
        themes=[THEME],
        importance=next((weight for below, weight in _IMPORTANCE if length < below), _MOST_IMPORTANT),
    )
    return paths.derived_id("exchange", [one.id for one in exchange]), scene


def messages_of(exchanges: Sequence[Exchange]) -> list[JsonObject]:
    """The messages for a platform's model: the newest ones, each up to a length."""
    said = [one for exchange in exchanges for one in exchange][-_TOLD:]
    return [
        {
            "role": one.role if one.role in _ROLES else "user",
            "content": (one.content if one.role in _ROLES else f"{_actor(one)}: {one.content}")[:_TOLD_LENGTH],
            "created_at": one.day or one.at,
        }
        for one in said
    ]


def scenes_in(result: JsonObject, exchanges: Sequence[Exchange]) -> dict[str, Scene]:
    """The scenes of a model, by their ids: the same messages have the same ids, whatever the model then writes."""
    said = [one for exchange in exchanges for one in exchange]
    usual = {"actors": list(dict.fromkeys(map(_actor, said))), "when": [said[-1].day or said[-1].at[:10]]}
    listed = result.get("scenes")
    told = [_scene(one, usual) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    ids = [one.id for one in said]
    return {paths.derived_id("told", ids, n): scene for n, scene in enumerate(told[:MOST_SCENES]) if scene is not None}


def _scene(told: JsonObject, usual: JsonObject) -> Scene | None:
    """A scene, if it is valid. Actors and time that it does not name are those of the conversation."""
    said = {name: value for name, value in told.items() if name in Scene.model_fields and value}
    try:
        return Scene.model_validate({**usual, **said})
    except ValidationError:
        return None


def _actor(said: Said) -> str:
    return paths.printable(said.role) or "somebody"


def _clipped(content: str) -> str:
    words = paths.printable(content[: 2 * _TURN_LENGTH])
    return words if len(words) <= _TURN_LENGTH else f"{words[:_TURN_LENGTH].rstrip()} …"
