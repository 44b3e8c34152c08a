"""What is wrong with a setting, in one sentence that names it as the person who set it knows it."""

from collections.abc import Mapping

from pydantic import ValidationError

from gateway.config.sources import PREFIX, Fields, Origin, variables_of

# pydantic's kind of error -> our words for it; what is not here was raised by a validator of ours, in our words.
_RULES = {
    "int_parsing": "must be a whole number",
    "float_parsing": "must be a number",
    "finite_number": "must be a number",
    "greater_than": "must be more than {gt:g}",
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le:g}",
    "bool_parsing": "must be true or false",
    "literal_error": "must be one of {expected}",
}


def sentence(error: ValidationError, fields: Fields, found: Mapping[str, Origin]) -> str:
    """`found` says where each setting comes from."""
    first = error.errors(include_url=False, include_input=False)[0]
    message = first["msg"].removeprefix("Value error, ")
    if not first["loc"]:
        return message
    # Only our own rules are patterns: a message may quote a path, and a path may have braces in it.
    rule = _RULES[first["type"]].format(**first.get("ctx", {})) if first["type"] in _RULES else message
    return f"{_named(str(first['loc'][0]), fields, found)} {rule}".rstrip(".") + "."


def _named(name: str, fields: Fields, found: Mapping[str, Origin]) -> str:
    """The variable that a person has set: if a setting has several names, the one that counted."""
    field = next((field for field, info in fields.items() if name in (field, *variables_of(field, info))), name)
    said = found.get(field)
    return PREFIX + field.upper() if said is None or said.kind in {"flag", "default"} else said.name
