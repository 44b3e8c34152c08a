"""Checks of arguments about a person, so that a mistake is reported at once."""

from typing import Final

from gateway.app import log
from gateway.app.brains import brains_for
from gateway.app.startup import CannotStart, say
from gateway.config.settings import BadSetting, Settings
from gateway.config.token_file import Record
from gateway.config.user_file import User
from gateway.operations.errors import GatewayError
from gateway.operations.names import is_brain

_NAME_LENGTH: Final = 256
_BRAINS_NAMED: Final = 10


def checked(value: str, option: str) -> str:
    if not value.strip() or len(value) > _NAME_LENGTH or not value.isprintable():
        raise BadSetting(f"{option} must be 1 to {_NAME_LENGTH} characters that can be shown.")
    return value


def check_brain(settings: Settings, whose: Record | User) -> None:
    """Check that the brain exists to which a person will be bound. This is skipped if the platform is down.

    Raises:
        BadSetting: there is no such brain.
    """
    log.configure("error", settings.log_format)
    try:
        brains = brains_for(settings, whose)
    except (BadSetting, CannotStart, GatewayError) as error:
        say(f"Whether there is a brain {whose.brain} could not be checked: {getattr(error, 'message', error)}")
        return
    if not any(is_brain(str(whose.brain), brain_id, slug) for slug, brain_id in brains):
        there = ", ".join(slug for slug, _ in brains[:_BRAINS_NAMED]) or "none yet"
        raise BadSetting(
            f"There is no brain {whose.brain}. There are: {there}. "
            "Create it with memory_create_brain first, or add --anyway."
        )
