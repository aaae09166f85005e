"""The types: the stub of the native module says what is there, and users' programs are checked against the package."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import leasehold

PACKAGE = Path(leasehold.__file__).parent

GOOD = """
import asyncio
import leasehold
from leasehold import aio

client = leasehold.Client(["http://a:1", "http://b:1"], ttl=15)
guard: leasehold.Guard = client.lock("/x", timeout=5).acquire()
maybe: leasehold.Guard | None = client.lock("/x").try_acquire()
token: int = guard.token

@client.synchronized("job:{number}")
def job(number: int) -> str:
    return str(number)

done: str = job(7)

async def main() -> None:
    async with aio.Client("memory://") as client, client.lock("/x") as guard:
        revision: int = await guard.put("/a", b"1")
        contenders: list[leasehold.Contender] = await client.lock("/x").queue()
"""

BAD = {
    "job('seven')": "arg-type",
    "client.lock('/x').release()": "attr-defined",
    "client.lock('/x').try_acquire().token": "union-attr",
    "guard.token = 5": "misc",
    "leasehold.Client('x', tll=5)": "call-arg",
}


def mypy(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MYPYPATH": str(PACKAGE.parent)}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=cwd)


def test_the_stub_says_what_is_there(tmp_path: Path) -> None:
    # The operations for tests are not in what is published.
    allowed = tmp_path / "allowed"
    allowed.write_text("leasehold._native.testing\nleasehold._native.__all__\n")
    done = mypy(
        "mypy.stubtest", "leasehold._native", "--allowlist", str(allowed), "--ignore-unused-allowlist", cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_programs_are_checked(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(GOOD + "\n".join(BAD))
    done = mypy("mypy", "--strict", "--no-error-summary", "program.py", cwd=tmp_path)
    errors = [line for line in done.stdout.splitlines() if " error: " in line]
    assert [error.rpartition("[")[2].rstrip("]") for error in errors] == list(BAD.values()), done.stdout + done.stderr
