"""Becomes a command in a machine. Runs as the first process of mount and process namespaces of its own (`unshare`), so
whatever is mounted or started here is gone when it ends, however it ends.

Argument: JSON with `layers` (directories, the topmost first), `upper`, `work` and `top` (where changes go, overlayfs's own
directory, and where the machine is put together), all seen from `scratch`; `binds` (read-only directories and files of this
machine), `links` (symbolic ones, with what they point to), `shm` and `tmp` (options of their tmpfs; none: /tmp is a directory
of the root), `is_offline`, `user`, `group`, `directory`, `environment` and `command`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

DEVICES = ["null", "zero", "full", "random", "urandom", "tty"]


def mount(*arguments: str | Path) -> None:
    subprocess.run(["mount", *arguments], check=True)


def put_together(wanted: dict) -> Path:
    top = Path(wanted["top"])
    # Relative to here, as a path may hold what separates options.
    os.chdir(wanted["scratch"])
    options = f"lowerdir={':'.join(wanted['layers'])},upperdir={wanted['upper']},workdir={wanted['work']}"
    mount("-t", "overlay", "machine", "-o", options, top)
    mount("-t", "proc", "proc", top / "proc")
    mount("-t", "sysfs", "-o", "ro", "sysfs", top / "sys")
    mount("-t", "tmpfs", "-o", "mode=755", "dev", top / "dev")
    for name in DEVICES:
        (top / "dev" / name).touch()
        mount("--bind", f"/dev/{name}", top / "dev" / name)
    for name, target in {"fd": "fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}.items():
        (top / "dev" / name).symlink_to(f"/proc/self/{target}")
    (top / "dev/pts").mkdir()
    mount("-t", "devpts", "-o", "newinstance,ptmxmode=0666,mode=620", "devpts", top / "dev/pts")
    (top / "dev/ptmx").symlink_to("pts/ptmx")
    (top / "dev/shm").mkdir()
    mount("-t", "tmpfs", "-o", wanted["shm"], "shm", top / "dev/shm")
    if wanted["tmp"]:
        mount("-t", "tmpfs", "-o", wanted["tmp"], "tmp", top / "tmp")
    for source, place in wanted["binds"].items():
        target = top / place.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.mkdir(exist_ok=True) if Path(source).is_dir() else target.touch()
        mount("--bind", source, target)
        mount("-o", "remount,bind,ro", target)
    for place, target in wanted["links"].items():
        link = top / place.lstrip("/")
        if not link.is_symlink():
            link.symlink_to(target)
    return top


def main() -> None:
    wanted = json.loads(sys.argv[1])
    if wanted["is_offline"]:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    top = put_together(wanted)
    os.chroot(top)
    os.chdir("/")
    # This process stays root: the kernel forgets whose death ends a process when that process changes its user.
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setgid(wanted["group"])
        os.setuid(wanted["user"])
        os.umask(0o022)
        os.chdir(wanted["directory"])
        os.execve(wanted["command"][0], wanted["command"], wanted["environment"])
    while True:
        ended, status = os.wait()
        if ended == child:
            sys.exit(os.waitstatus_to_exitcode(status) % 256)


main()
