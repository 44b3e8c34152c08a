"""`brains-gateway key`: make, rotate and list the keys that requests to the platform are signed with."""

import argparse
from pathlib import Path

from gateway.app.startup import say
from gateway.cli.print_table import print_table
from gateway.config import signing_keys
from gateway.config.reread_file import replace_file
from gateway.config.settings import BadSetting, Settings
from gateway.operations import audit


def run(settings: Settings, arguments: argparse.Namespace) -> None:
    path = _keys_path(settings)
    match arguments.verb:
        case "create":
            create_keys(path, arguments.algorithm)
        case "rotate":
            rotate_keys(path, arguments.algorithm)
        case _:
            list_keys(path)


def create_keys(path: Path, algorithm: signing_keys.Algorithm) -> None:
    if path.exists():
        raise BadSetting(f"{path} is there already: brains-gateway key rotate makes the next key the one in use.")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    replace_file(path, signing_keys.serialize(signing_keys.begin(algorithm)))
    audit.note("command", tool="key create", path=str(path), outcome="ok")
    say(f"{path} has a key to sign with and the next one. The platform reads both at /.well-known/jwks.json.")


def rotate_keys(path: Path, algorithm: signing_keys.Algorithm) -> None:
    keys = signing_keys.rotate(signing_keys.parse(path.read_bytes()), algorithm)
    replace_file(path, signing_keys.serialize(keys))
    audit.note("command", tool="key rotate", path=str(path), outcome="ok")
    say("The next key is in use now. Wait ten minutes before you rotate again: platforms keep the list for five.")


def list_keys(path: Path) -> None:
    keys = signing_keys.parse(path.read_bytes())
    print_table([("KEY", "ALGORITHM", "STATUS", "SINCE"), *((k.kid, k.algorithm, k.status, k.since) for k in keys)])


def _keys_path(settings: Settings) -> Path:
    if settings.signing_keys_file is None:
        raise BadSetting("Set BRAINS_SIGNING_KEYS_FILE to where the keys are to be.")
    return settings.signing_keys_file
