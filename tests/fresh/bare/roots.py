"""Makes the roots: minimal Debian systems, kept as archives under .cache, so that only the first run has to fetch them."""

import hashlib
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CACHE = ROOT / ".cache" / "fresh"
# From old to new. What is packed on one has to run on all.
SUITES = ["bookworm", "trixie"]
USER, USER_ID = "dev", 1000
# What is on a machine where somebody unpacks a project and types `make`. The rest is for the README and the doctor to name.
PACKAGES = ["ca-certificates", "make"]
# `--include` alone would bring what is only recommended; a Release file may be past its date where a mirror is a frozen copy.
APT = ['Acquire::Check-Valid-Until "false"', 'Acquire::Languages "none"']
# Where a machine says which authorities it trusts beside Debian's.
OWN_AUTHORITIES = Path("/usr/local/share/ca-certificates")
LIMIT_SECONDS = 900


class Unusable(Exception):
    """This machine cannot make roots; the text says why and what to do."""


def proxies() -> list[str]:
    """How this machine's apt reaches its mirrors, if by a way of its own."""
    dumped = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=False).stdout
    return re.findall(r'^(Acquire::(?:http|https)::(?:Proxy|CaInfo) "[^"]+");$', dumped, re.MULTILINE | re.IGNORECASE)


def archive(suite: str) -> Path:
    """Where the root is kept; a root that is made in another way has another name."""
    wanted = (
        repr((suite, PACKAGES, APT, USER, [path.read_bytes() for path in authorities()])) + Path(__file__).read_text()
    )
    return CACHE / f"{suite}-{hashlib.sha256(wanted.encode()).hexdigest()[:12]}.tar"


def authorities() -> list[Path]:
    return sorted(OWN_AUTHORITIES.glob("*.crt"))


def make(suite: str, log: Path) -> bool:
    """Makes the root unless it is there. Returns whether it had to."""
    wanted = archive(suite)
    if wanted.exists():
        return False
    for old in CACHE.glob(f"{suite}-*.tar*"):
        old.unlink()
    CACHE.mkdir(parents=True, exist_ok=True)
    unfinished = wanted.with_suffix(f".tar-{os.getpid()}")
    command = ["mmdebstrap", "--variant=minbase", "--format=tar", f"--include={','.join(PACKAGES)}"]
    command += [f"--aptopt={option}" for option in APT + proxies()]
    # Fast rather than safe from a power cut: the root can be made again.
    command += ["--dpkgopt=force-unsafe-io"]
    for path in authorities():
        command.append(f"--customize-hook=copy-in {path} {OWN_AUTHORITIES}")
    command += [
        # What every installer writes, and this one does not.
        """--customize-hook=echo '127.0.0.1 localhost' >"$1/etc/hosts\"""",
        '--customize-hook=chroot "$1" update-ca-certificates',
        f'--customize-hook=chroot "$1" useradd --create-home --shell /bin/bash --uid {USER_ID} {USER}',
        suite,
        str(unfinished),
    ]
    try:
        with log.open("wb") as output:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, timeout=LIMIT_SECONDS, check=False
            )
        if done.returncode != 0:
            last = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
            raise Unusable(f"mmdebstrap could not make {suite}; {log} ends:\n{last}")
        unfinished.rename(wanted)
    finally:
        unfinished.unlink(missing_ok=True)
    return True


def unpack(suite: str, directory: Path) -> None:
    """Writes the root's files."""
    directory.mkdir(parents=True)
    subprocess.run(["tar", "--numeric-owner", "-C", directory, "-xf", archive(suite)], check=True)
