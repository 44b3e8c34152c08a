"""`brains-gateway completion`: a script that makes a shell complete commands, options and their choices."""

import argparse
import re
from collections.abc import Iterator, Mapping
from typing import Final

# Words that may be typed, from the help of a command: options, choices, and verbs, each on a line of its own.
_OPTION: Final = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
_CHOICES: Final = re.compile(r"\{([\w,-]+)\}")
_VERB: Final = re.compile(r"^    ([a-z]+)(?= {2}|$)", re.MULTILINE)
_BASH: Final = """\
_brains_gateway() {{
    local word="${{COMP_WORDS[COMP_CWORD]}}" words
    case "$COMP_CWORD ${{COMP_WORDS[1]}}" in
        "1 "*) words="{commands}" ;;
{cases}
    esac
    COMPREPLY=($(compgen -W "$words" -- "$word"))
    # Where no word fits, it may be a file.
    [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- "$word"))
}}
complete -F _brains_gateway brains-gateway
"""


def script(commands: Mapping[str, argparse.ArgumentParser], shell: str) -> str:
    words = {name: list(dict.fromkeys(_words(parser))) for name, parser in commands.items()}
    if shell == "fish":
        return "".join(_fish_lines(words))
    cases = "\n".join(f'        *" {name}") words="{" ".join(options)}" ;;' for name, options in words.items())
    made = _BASH.format(commands=" ".join(words), cases=cases)
    return made if shell == "bash" else f"autoload -U +X bashcompinit && bashcompinit\n{made}"


def _words(parser: argparse.ArgumentParser) -> Iterator[str]:
    told = parser.format_help()
    yield from _OPTION.findall(told)
    yield from _VERB.findall(told)
    for choices in _CHOICES.findall(told):
        yield from choices.split(",")


def _fish_lines(words: Mapping[str, list[str]]) -> Iterator[str]:
    for name, options in words.items():
        yield f"complete -c brains-gateway -n __fish_use_subcommand -f -a {name}\n"
        for option in options:
            kind = f"-l {option[2:]}" if option.startswith("--") else f"-f -a {option}"
            yield f"complete -c brains-gateway -n '__fish_seen_subcommand_from {name}' {kind}\n"
