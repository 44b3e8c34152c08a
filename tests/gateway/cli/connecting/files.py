"""Files of settings as people write them, drawn by hypothesis: comments, odd spaces, line ends, trailing commas."""

import json
import re
import tomllib
from typing import Any

import yaml
from hypothesis import strategies as st

_KEYS = st.sampled_from(["a", "b c", "theme", "mcp", "x.y", 'quo"te', "ä", "brainsy"])
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-9, 10**6)
    | st.text(max_size=8)
    | st.sampled_from(["// no", "/* no */", "{"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=6,
)
_GAPS = st.sampled_from(["", "", " ", "\n", "\n  ", "\n\t", " // said\n", "/* said */", "\n  /* said\n ** so */\n"])


@st.composite
def json_files(draw: st.DrawFn, section: str) -> str:
    """An object, often with the section, in no style or in a common one."""
    data = draw(st.dictionaries(_KEYS, _VALUES, max_size=4))
    if draw(st.booleans()):
        data[section] = draw(st.dictionaries(_KEYS, st.dictionaries(_KEYS, _VALUES, max_size=2), max_size=3))
    items = draw(st.permutations(list(data.items())))
    text = _odd(draw, dict(items)) if draw(st.booleans()) else _common(draw, dict(items))
    return draw(st.sampled_from(["", "\ufeff"])) + text + draw(st.sampled_from(["", "\n", "\n// end"]))


def _common(draw: st.DrawFn, data: dict[str, Any]) -> str:
    indent: Any = draw(st.sampled_from([None, 2, 4, "\t"]))
    text = json.dumps(data, indent=indent, ensure_ascii=draw(st.booleans()))
    return text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


def _odd(draw: st.DrawFn, data: Any) -> str:
    if isinstance(data, dict):
        parts = [json.dumps(key) + draw(_GAPS) + ":" + draw(_GAPS) + _odd(draw, value) for key, value in data.items()]
        return "{" + _joined(draw, parts) + "}"
    if isinstance(data, list):
        return "[" + _joined(draw, [_odd(draw, value) for value in data]) + "]"
    return json.dumps(data)


def _joined(draw: st.DrawFn, parts: list[str]) -> str:
    made = "".join(draw(_GAPS) + part + draw(_GAPS) + "," for part in parts)
    # A comma at the end is no mistake.
    return (made if draw(st.booleans()) else made.removesuffix(",")) + draw(_GAPS)


_TOML = [
    "# said\n",
    "\n",
    'model = "o" # said\n',
    "list = [\n  1, # said\n  2,\n]\n",
    'text = """\n[mcp_servers.brains]\n"""\n',
    "[mcp_servers]\n",
    "[mcp_servers.other]\ncommand = 'x' # said\n",
    "[mcp_servers.other.env]\nA = '1'\n",
    '[mcp_servers."odd name"]\nurl = "http://127.0.0.1/"\n',
    "[[profiles]]\nname = 'a'\n",
    "[profiles2.x]\ny = {z = 1}\n",
    "mcp_servers.dotted.command = 'x'\n",
    "mcp_servers = {inline = {command = 'x'}}\n",
]
_YAML = [
    "# said\n",
    "\n",
    "GOOSE_MODEL: o # said\n",
    "list:\n- 1 # said\n-   2\n",
    "text: |\n  extensions:\n    brains: no\n\n",
    "extensions: {}\n",
    "extensions:\n",
    "extensions: ~ # said\n",
    "extensions: {other: {enabled: true}} # said\n",
    "extensions:\n  # said\n  other:\n    enabled: true # said\n    args:\n    - a\n\n",
    "extensions:\n    wide:\n        name: wide\n    # said\n    next:\n        name: next\n",
    "after:\n  b: 'x'\n",
    '{"GOOSE_MODEL": "o", "extensions": {"other": {"enabled": true}}}\n',
]


def _is(read: Any, text: str) -> bool:
    try:
        return isinstance(read(text), dict | None)
    except (tomllib.TOMLDecodeError, yaml.YAMLError):
        return False


def _of(pieces: list[str], read: Any) -> st.SearchStrategy[str]:
    """Some of these pieces in any order, as far as they make a file together."""
    texts = st.lists(st.sampled_from(pieces), max_size=5, unique=True).map("".join)
    ended = st.tuples(texts, st.booleans(), st.booleans()).map(
        lambda drawn: (drawn[0].rstrip("\n") if drawn[1] else drawn[0]).replace("\n", "\r\n" if drawn[2] else "\n")
    )
    # A key that is there twice is left to a person.
    return ended.filter(lambda text: _is(read, text) and len(re.findall("^extensions:", text, re.MULTILINE)) < 2)


def files(syntax: str, section: str) -> st.SearchStrategy[str]:
    if syntax == "json":
        return json_files(section)
    return _of(_TOML, tomllib.loads) if syntax == "toml" else _of(_YAML, yaml.safe_load)
