"""A gateway is killed by `kill -9` while clients write, and a backup that was made under this load is restored."""

import asyncio
import os
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest

from contract.platform.backup import kept_aside
from contract.platform.database import FILE_NAME
from tests.canaries.processes import Process, running
from tests.faults.proof.shelves import PlatformShelf, held
from tests.replicas.load import Told, load, until_written

# Most of the time is that of commands and gateways that start, so it is long where many programs run.
pytestmark = [pytest.mark.not_quick, pytest.mark.slow, pytest.mark.timeout(600)]

ROUNDS = 20


@pytest.mark.few(2)
@pytest.mark.parametrize("nth", range(ROUNDS))
async def test_a_backup_made_under_load_has_all_that_was_written_before_it(nth: int, tmp_path: Path) -> None:
    data, copy = tmp_path / "data", tmp_path / "copy.sqlite3"
    gateway = Process({"BRAINS_DATA_DIR": str(data)}, tmp_path / "said.txt")
    with running(gateway):
        async with load(gateway.url, "any") as told:
            await until_written(told, 10 + nth)
            before_backup = acknowledged(told)
            backup = await begin(tmp_path, "backup", str(copy))
            # The gateway is killed some writes after the backup, or while it is made.
            if nth % 2:
                await until_done(backup)
                await until_written(told, nth)
            gateway.kill()
            before_kill = acknowledged(told)
            if not nth % 2:
                await until_done(backup)
            await until_done(await begin(tmp_path, "restore", str(copy)))
            restored = counted(data / FILE_NAME, told)
            (aside,) = kept_aside(data)
            kept = counted(aside, told)
            # Clients send again what was not answered, until the gateway is back.
            gateway.start()
            await until_written(told, 10)
        served = counted(data / FILE_NAME, told)
    assert before_backup - restored == Counter(), "written before the backup, and not in it"
    assert before_kill - kept == Counter(), "written before the kill, and not in the file that was put aside"
    assert restored - served == Counter(), "lost after the restore"
    assert {*restored.values(), *kept.values(), *served.values()} == {1}
    assert told.final == []


def acknowledged(told: Told) -> Counter[str]:
    return Counter([*told.marks, *(key for log in told.messages.values() for key in log)])


def counted(file: Path, told: Told) -> Counter[str]:
    """How often each write is stored in this file."""
    with closing(PlatformShelf(file)) as shelf:
        return held(shelf, [*told.messages])[0]


async def begin(home: Path, *arguments: str) -> asyncio.subprocess.Process:
    environment = {**os.environ, "BRAINS_DATA_DIR": str(home / "data"), "BRAINS_LOG_LEVEL": "error"}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "gateway", *arguments), env=environment, stderr=asyncio.subprocess.PIPE
    )


async def until_done(command: asyncio.subprocess.Process) -> None:
    _, complaints = await command.communicate()
    assert command.returncode == 0, complaints.decode()
