"""What time it is, as the `being` surface tells it."""

from datetime import UTC, datetime, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from gateway.operations.errors import GatewayError
from gateway.operations.table import JsonObject

_WEEKDAYS: Final = "月火水木金土日"


def told(moment: datetime, timezone: str) -> JsonObject:
    """A moment in a time zone, and as it is everywhere."""
    local, universal = moment.astimezone(_zone(timezone)), moment.astimezone(UTC)
    return {
        "datetime": f"{local:%Y/%m/%d}({_WEEKDAYS[local.weekday()]}) {local:%H:%M:%S}",
        "iso": universal.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "timezone": timezone,
    }


def _zone(name: str) -> tzinfo:
    # Known everywhere, also where the system has no list of time zones.
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    # Names are looked up as files: some are folders, some are no names at all.
    except (KeyError, ValueError, OSError):
        message = "timezone must be an IANA time zone that is known here, for example Asia/Tokyo."
        raise GatewayError("validation_error", message) from None
