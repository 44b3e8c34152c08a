"""Changes of a YAML file as a person wrote it: PyYAML finds the places, and the rest is not touched."""

import json
from collections.abc import Mapping
from typing import Any

import yaml

from gateway.app.connecting import json_text


def read(text: str) -> Any:
    """The value of a text; nothing if it is empty.

    Raises:
        ValueError: it is not YAML.
    """
    try:
        said = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ValueError("it is not YAML") from None
    return {} if said is None else said


def put(text: str, section: str, name: str, entry: Mapping[str, Any]) -> str:
    """The text with an entry in a section. Both may be there already."""
    root = _root(text)
    if root is not None and root.flow_style:
        # JSON is YAML too.
        return json_text.put(text, section, name, entry)
    if name in (read(text).get(section) or {}):
        text = take(text, section, name)
        root = _root(text)
    found = None if root is None else _find(root, section)
    if root is None or found is None:
        indent = 0 if root is None else root.value[0][0].start_mark.column
        end = len(text) if root is None else root.end_mark.index
        return _with_lines(text, end, _lines(text, {section: {name: entry}}, indent))
    key, value = found
    if isinstance(value, yaml.MappingNode) and value.value and not value.flow_style:
        first = value.value[0][0].start_mark
        return _with_lines(text, first.index - first.column, _lines(text, {name: entry}, first.column))
    if isinstance(value, yaml.MappingNode) and value.value:
        said = f"{json.dumps(name)}: {json.dumps(entry, ensure_ascii=False)}, "
        return text[: value.start_mark.index + 1] + said + text[value.start_mark.index + 1 :]
    # It is empty: the sign for that is replaced, and a comment after it stays.
    start, end = value.start_mark.index, value.end_mark.index
    text = text[:start].rstrip(" ") + text[end:] if end > start else text
    line_end = text.find("\n", key.end_mark.index)
    return _with_lines(
        text,
        len(text) if line_end < 0 else line_end + 1,
        _lines(text, {name: entry}, key.start_mark.column + 2),
    )


def take(text: str, section: str, name: str) -> str:
    """The text without an entry, if it is there."""
    root = _root(text)
    if root is not None and root.flow_style:
        return json_text.take(text, section, name)
    key, value = (None if root is None else _find(root, section)) or (None, None)
    if key is None or not isinstance(value, yaml.MappingNode):
        return text
    found = _find(value, name)
    if found is None:
        return text
    if value.flow_style:
        return _without_flow(text, value, found)
    start = found[0].start_mark.index - found[0].start_mark.column
    end = text.find("\n", _last(found[1]))
    text = text[:start] + ("" if end < 0 else text[end + 1 :])
    if len(value.value) > 1:
        return text
    # Otherwise the value would be empty, which is not a mapping.
    colon = text.index(":", key.end_mark.index) + 1
    return text[:colon] + " {}" + text[colon:]


def _root(text: str) -> yaml.MappingNode | None:
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        raise ValueError("it is not YAML") from None
    if root is not None and not isinstance(root, yaml.MappingNode):
        raise ValueError("it is no mapping")
    return root


def _find(mapping: yaml.MappingNode, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    return next(((key, value) for key, value in mapping.value if key.value == name), None)


def _last(node: yaml.Node) -> int:
    """The place of the last character of a value. PyYAML's own end may be after comments."""
    if isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        inner = node.value[-1]
        return _last(inner[1] if isinstance(inner, tuple) else inner)
    return max(node.start_mark.index, node.end_mark.index - 1)


def _without_flow(text: str, mapping: yaml.MappingNode, found: tuple[yaml.Node, yaml.Node]) -> str:
    start, end = found[0].start_mark.index, found[1].end_mark.index
    rest = text[end:]
    if rest.lstrip().startswith(","):
        return text[:start] + rest.lstrip()[1:].removeprefix(" ")
    return text[:start].rstrip().removesuffix(",") + rest


def _lines(text: str, data: Mapping[str, Any], indent: int) -> str:
    made = yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=2**30)
    line = "\r\n" if "\r\n" in text else "\n"
    return "".join(f"{' ' * indent}{said}{line}" for said in made.splitlines())


def _with_lines(text: str, place: int, lines: str) -> str:
    """The text with whole lines at a place."""
    before = text[:place]
    if before and not before.endswith("\n"):
        before += "\r\n" if "\r\n" in text else "\n"
    return before + lines + text[place:]
