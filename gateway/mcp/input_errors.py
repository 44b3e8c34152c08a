"""What is wrong with the arguments of a tool, in words for the model that sent them."""

from typing import Any

from pydantic import ValidationError

# pydantic's kind of error -> our words for it. `{…}` are the limits the error carries.
_RULES = {
    "missing": "is required",
    "extra_forbidden": "is not an argument of this tool",
    "string_type": "must be a string",
    "string_unicode": "must be valid Unicode text",
    "string_too_short": "must have at least {min_length} character(s)",
    "string_too_long": "must have at most {max_length:,} characters",
    "string_pattern_mismatch": "must match {pattern}",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a number",
    "blank": "must not be blank",
    "day": "must be a date as in 2026-04-14",
    "bool_type": "must be true or false",
    "greater_than": "must be more than {gt:.12g}",
    "greater_than_equal": "must be at least {ge:.12g}",
    "less_than_equal": "must be at most {le:.12g}",
    "literal_error": "must be one of {expected}",
    "list_type": "must be a list",
    "too_short": "must have at least {min_length} entry",
    "too_long": "must have at most {max_length} entries",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
}


def sentence(error: ValidationError) -> str:
    """The first few things wrong, each as field and rule; never the value, which may be a secret."""
    problems = [_problem(problem) for problem in error.errors(include_url=False, include_input=False)[:3]]
    return "; ".join(problems) + "."


def _problem(problem: Any) -> str:
    if problem["type"] == "value_error":
        return str(problem["msg"]).removeprefix("Value error, ")
    field = "".join(f"[{part}]" if isinstance(part, int) else f".{printable(part)}" for part in problem["loc"])
    rule = _RULES.get(problem["type"], "is not valid").format(**problem.get("ctx", {}))
    return f"{field.removeprefix('.') or 'arguments'} {rule}"


def printable(name: object) -> str:
    # Cut first: it may be as long as a body.
    text = "".join(c if c.isprintable() else "?" for c in str(name)[:65])
    return text if len(text) <= 64 else text[:64] + "…"
