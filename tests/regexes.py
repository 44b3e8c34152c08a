"""Every regular expression of the tree, and what would make one slow.

A pattern is taken apart with Python's own parser. Texts are made of what it looks for: something before, the same piece
many times, something that does not fit. Where twice the text takes four times the time, some such text shows it.
"""

import ast
import importlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

# What Python itself reads patterns with: the names are private, but have been there since 3.11.
from re import _compiler, _constants, _parser  # type: ignore[attr-defined]
from typing import Any, Final

from tests.growth import GROWTH, is_linear

ROOT: Final = Path(__file__).parents[1]
# A function of `re` -> where its flags stand among the arguments.
FLAGS_AT: Final = {"compile": 1, "split": 3, "sub": 4, "subn": 4} | dict.fromkeys(
    ("search", "match", "fullmatch", "findall", "finditer"), 2
)
ANCHORED: Final = ("match", "fullmatch", "search")
REPEATS: Final = (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT)
SETS: Final = (_constants.LITERAL, _constants.NOT_LITERAL, _constants.IN, _constants.ANY)
# A repetition that ends before this cannot take long.
MANY: Final = 300
LETTERS: Final = [*map(chr, range(128)), "é", "\u0301", "’", "\u2028", "語", "！", "\ufeff", "😀"]
SUFFIXES: Final = ("", "\0", "\n\0", "!")

# In small steps, so that what is exponential is caught before it takes for ever.
SIZES: Final[tuple[int, ...]] = (*range(16, 33, 4), *(1 << n for n in range(6, 13, 2)))
# What is linear is through the longest text in less.
SUSPICIOUS: Final = 0.004


@dataclass(frozen=True, slots=True)
class Used:
    """A pattern, where it stands, and what is asked of it."""

    place: str
    pattern: re.Pattern[Any]
    methods: frozenset[str]

    def __str__(self) -> str:
        return f"{self.place} {self.pattern.pattern!r}"


@dataclass(slots=True)
class Found:
    used: list[Used] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """Calls whose pattern is made at run time."""


def in_tree(*folders: str) -> Found:
    """The patterns of all modules below these folders."""
    found = Found()
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for folder in folders for path in _sources(folder)}
    asked = _methods_by_name(trees)
    for path, tree in trees.items():
        module = importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
        for statement in tree.body:
            for call in filter(_is_regex_call, ast.walk(statement)):
                _add(found, path, module, statement, call, asked)
    return found


def _sources(folder: str) -> list[Path]:
    return [path for path in sorted((ROOT / folder).rglob("*.py")) if path.name not in ("__main__.py", "__init__.py")]


def _is_regex_call(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in FLAGS_AT
    )


def _methods_by_name(trees: dict[Path, ast.Module]) -> dict[tuple[str, str], set[str]]:
    """(module, name) -> which methods of the pattern with that name are called."""
    asked: dict[tuple[str, str], set[str]] = {}
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in FLAGS_AT:
                match node.value:
                    case ast.Name(name):
                        asked.setdefault((path.stem, name), set()).add(node.attr)
                    case ast.Attribute(ast.Name(module), name):
                        asked.setdefault((module, name), set()).add(node.attr)
    return asked


def _add(
    found: Found, path: Path, module: Any, statement: ast.stmt, call: Any, asked: dict[tuple[str, str], set[str]]
) -> None:
    place = f"{path.relative_to(ROOT)}:{call.lineno}"
    name = _target(statement)
    if name is not None:
        methods = frozenset(asked.get((path.stem, name), {"search"}))
        found.used += [Used(place, pattern, methods) for pattern in _patterns(getattr(module, name))]
        return
    try:
        pattern, *flags = (
            eval(compile(ast.Expression(node), "<pattern>", "eval"), vars(module)) for node in _pattern_and_flags(call)
        )
    except NameError:
        found.unread.append(f"{path.relative_to(ROOT)}: {ast.unparse(call)}")
        return
    if isinstance(pattern, str | bytes):
        found.used.append(Used(place, re.compile(pattern, *flags), frozenset({call.func.attr})))


def _pattern_and_flags(call: ast.Call) -> list[ast.expr]:
    assert isinstance(call.func, ast.Attribute)
    behind = call.args[FLAGS_AT[call.func.attr] :][:1]
    return [call.args[0], *behind, *(keyword.value for keyword in call.keywords if keyword.arg == "flags")]


def _target(statement: ast.stmt) -> str | None:
    """What a statement of a module defines."""
    match statement:
        case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
            return name
    return None


def _patterns(value: object) -> Iterator[re.Pattern[Any]]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from (pattern for inner in value.values() for pattern in _patterns(inner))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from (pattern for inner in value for pattern in _patterns(inner))


def slowest(used: Used) -> str | None:
    """What shows that a pattern takes more than linear time, if something does."""
    for method in sorted({method if method in ANCHORED else "finditer" for method in used.methods}):
        for before, piece, behind in attacks(used.pattern):
            run = partial(_run, used.pattern, method, before, piece, behind)
            slow = (size for size in SIZES if not is_linear(run, size // GROWTH, unseen=SUSPICIOUS))
            if (size := next(slow, None)) is not None:
                return f"{used}: {method} of {before!r} + {piece!r} * n + {behind!r} at n = {size}"
    return None


def _run(pattern: re.Pattern[Any], method: str, before: str, piece: str, behind: str, size: int) -> None:
    text = _made(pattern, before, piece, behind, size)
    if method == "finditer":
        for _ in pattern.finditer(text):
            pass
    else:
        getattr(pattern, method)(text)


def _made(pattern: re.Pattern[Any], before: str, piece: str, behind: str, size: int) -> str | bytes:
    text = before + piece * max(1, size // len(piece)) + behind
    return text if isinstance(pattern.pattern, str) else text.encode("latin-1", "replace")


def attacks(pattern: re.Pattern[Any]) -> list[tuple[str, str, str]]:
    """What to put before, what to repeat, what to put behind."""
    tree = _parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)
    letters = _letters(tree, pattern)
    whole = _sample(tree, letters)
    ways = list(_ways(tree, "", letters))
    leading = {whole, *(before for before, _ in ways)}
    pieces = {*letters, *leading, *(piece for _, body in ways for piece in body)}
    if pattern.flags & re.MULTILINE:
        # Every line may be a new beginning.
        pieces |= {f"{text}\n" for text in leading}
    starts = {"", *leading}
    return [
        (before, piece, behind)
        for before in sorted(starts, key=len)
        for piece in sorted(pieces - {""}, key=len)
        for behind in SUFFIXES
    ]


def _letters(tree: Any, pattern: re.Pattern[Any]) -> list[str]:
    """One letter for each kind that the pattern tells apart."""
    single = [_compiler.compile(_only(tree, node), pattern.flags) for node in _nodes(tree) if node[0] in SETS]
    literal = [chr(value) for op, value in _nodes(tree) if op is _constants.LITERAL]
    kinds: dict[tuple[bool, ...], str] = {}
    for letter in [*literal, *LETTERS]:
        said = letter if isinstance(pattern.pattern, str) else letter.encode("latin-1", "replace")
        kinds.setdefault(tuple(one.match(said) is not None for one in single), letter)
    return list(kinds.values())


def _only(tree: Any, node: Any) -> Any:
    return _parser.SubPattern(tree.state, [node])


def _nodes(tree: Any) -> Iterator[Any]:
    for node in tree:
        yield node
        for inner in _inside(node):
            yield from _nodes(inner)


def _inside(node: Any) -> Iterable[Any]:
    """The patterns within a node."""
    op, value = node
    if op is _constants.BRANCH:
        return tuple(value[1])
    if op in REPEATS or op is _constants.SUBPATTERN:
        return (value[-1],)
    if op is _constants.ATOMIC_GROUP:
        return (value,)
    if op in (_constants.ASSERT, _constants.ASSERT_NOT):
        return (value[1],)
    return ()


def _sample(tree: Any, letters: list[str], choice: int = 0) -> str:
    """A text that fits, or nearly."""
    return "".join(_sample_of(tree, node, letters, choice) for node in tree)


def _sample_of(tree: Any, node: Any, letters: list[str], choice: int) -> str:
    op, value = node
    if op in SETS:
        fits = _compiler.compile(_only(tree, node), tree.state.flags & ~re.DEBUG)
        fitting = [letter for letter in letters if _matches(fits, letter)]
        if op is _constants.LITERAL:
            return str(chr(value))
        return fitting[choice % len(fitting)] if fitting else ""
    if op in (_constants.ASSERT, _constants.ASSERT_NOT):
        return ""
    if op in REPEATS:
        return _sample(value[-1], letters, choice) * max(1, int(value[0]))
    inside = list(_inside(node))
    return _sample(inside[choice % len(inside)], letters, choice) if inside else ""


def _matches(pattern: re.Pattern[Any], letter: str) -> bool:
    try:
        return pattern.match(letter) is not None
    except TypeError:
        return pattern.match(letter.encode("latin-1", "replace")) is not None


def _ways(tree: Any, before: str, letters: list[str]) -> Iterator[tuple[str, list[str]]]:
    """For everything that may repeat: a text that leads there, and texts that repeat it."""
    for node in tree:
        op, value = node
        if op in REPEATS and value[1] >= MANY:
            yield before, [_sample(value[-1], letters, choice) for choice in range(3)]
        for inner in _inside(node):
            yield from _ways(inner, before, letters)
        before += _sample_of(tree, node, letters, 0)
