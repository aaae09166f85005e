"""The checks: what a newcomer does, on which machine, as whom. Each is a function that raises `Failure`."""

import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import java as coordinates

from bare import roots
from bare.machine import ADMIN, USERS, Failure, Machine, tail
from bare.visit import ADVICE, NODE_BY_HAND, Visit

ANY_USER = ("root", "plain")
# Of `make test`: one for each language whose tests have tools of their own.
STAGES = ("lint-format", "c", "node", "python")
# Where it makes no difference who it is: the user who may do less.
PLAIN = ("plain",)


@dataclass
class Check:
    name: str
    about: str
    users: tuple[str, ...]
    play: Callable[[Visit], None]
    # At the newest of the chosen roots only: the release makes no difference there.
    is_played_once: bool = False


CHECKS: list[Check] = []


def check(name: str, about: str, users: tuple[str, ...] = PLAIN, *, is_played_once: bool = False) -> Callable:
    def add(play: Callable[[Visit], None]) -> Callable[[Visit], None]:
        CHECKS.append(Check(name, about, users, play, is_played_once))
        return play

    return add


# --- the commands of the README --------------------------------------------------------------------------------------


@check("doctor", "`make doctor` changes nothing, and what it says can be had is to be had", ANY_USER)
def doctor(visit: Visit) -> None:
    machine = visit.start("bare", "doctor")
    said = machine.sh("touch /tmp/before; make doctor", expect=None)
    changed = machine.sh("find . -newer /tmp/before -not -name . | head").strip()
    if changed:
        raise Failure(f"make doctor changed {changed}")
    advised = {word for words in ADVICE.findall(said) for word in words.split() if not word.startswith("-")}
    if not advised:
        raise Failure(f"make doctor gives no advice:\n{said}")
    machine.sh(
        f"apt-get update -qq && apt-get install -qq --simulate {' '.join(sorted(advised))}", user=ADMIN, directory="/"
    )


@check("advice", "a user who may install nothing is told in one line what to have installed, and that it was not done")
def advice(visit: Visit) -> None:
    machine = visit.start("bare", "advice")
    for target in ("demo", "build", "test", "install-c", "lint", "sim"):
        said = machine.sh(f"make {target} && exit 1 || true")
        if (lines := sum("apt-get install" in line for line in said.splitlines())) != 1:
            raise Failure(f"make {target} gives {lines} lines with apt-get install, not one:\n{said}")


@check("demo", "`make demo` with Rust, Go and make", ANY_USER)
def demo(visit: Visit) -> None:
    visit.state("built")


@check(
    "debian-node", "the demo with Debian's Node: without it where it is too old, which is said in a line, else with it"
)
def debian_node(visit: Visit) -> None:
    machine = visit.start("built", "debian-node")
    visit.install(machine, "nodejs", "npm")
    said = machine.sh("make demo")
    expected = (
        "demo: without Node, which needs Node 20.11 or newer with npm (here: Node 1"
        if visit.suite in NODE_BY_HAND
        else " node-"
    )
    if expected not in said or bool(re.search(r"\bnode-\d", said)) == (visit.suite in NODE_BY_HAND):
        raise Failure(f"it does not say {expected!r}, or not only:\n{tail(said)}", machine.log)


@check("test", "`make test`, some stages of it", ANY_USER)
def test(visit: Visit) -> None:
    machine = visit.start("full", "test")
    said = machine.sh(f"make test ONLY={','.join(STAGES)}")
    visit.notes.append(f"make test ONLY={','.join(STAGES)}: {said.splitlines()[-1]}")


@check("install-c", "`make install-c` without Node and a JDK, and a program that pkg-config finds it for", ANY_USER)
def install_c(visit: Visit) -> None:
    machine = visit.start("built", "install-c")
    for tool in ("node", "javac"):
        machine.sh(f"! command -v {tool}")
    if machine.user is ADMIN:
        visit.advised(machine, "make install-c && ldconfig")
        find = ""
    else:
        visit.advised(machine, "make install-c PREFIX=$HOME/.local")
        find = "export PKG_CONFIG_PATH=$HOME/.local/lib/pkgconfig LD_LIBRARY_PATH=$HOME/.local/lib; "
    visit.install(machine, "gcc", "libc6-dev", "pkg-config")
    machine.tools = {"etcd": visit.etcd()}
    compiled = "cc ~/leasehold/ffi-c/examples/readme.c $(pkg-config --cflags --libs leasehold) -o program"
    takes_a_lock(machine, f"{find}mkdir ~/c && cd ~/c && {compiled}", f"{find}~/c/program")
    # And all the others, with C++ and CMake, too. What was installed needed neither.
    visit.install(machine, "g++", "cmake")
    find += "export CMAKE_PREFIX_PATH=$HOME/.local; "
    said = machine.sh(
        f"{find}{WITH_ETCD}~/leasehold/ffi-c/tests/installed http://127.0.0.1:2379",
        directory=machine.user.home,
        is_offline=True,
    )
    if "left out" in said or said.count("ok ") < 24:
        raise Failure(f"not every example ran in every way:\n{said}")
    visit.notes.append(f"install-c: {said.count('ok ')} examples from pkg-config and CMake, shared and static")


# --- what is packed, where nobody builds ------------------------------------------------------------------------------


def takes_a_lock(machine: Machine, prepare: str, program: str) -> None:
    """Runs a program of a user against an etcd where the README has it, and sees that it got the lock and left no key there."""
    machine.sh(prepare, directory=machine.user.home)
    # Cut off from the network: nobody else's etcd has that port there.
    said = machine.sh(WITH_ETCD + program + LEFT_NOTHING, directory=machine.user.home, is_offline=True)
    if "mine, with the token" not in said:
        raise Failure(f"the program did not say that it had the lock:\n{said}")


WITH_ETCD = """
etcd --data-dir "$(mktemp -d)" --log-level error &
deadline=$((SECONDS + 30))
until etcdctl endpoint health >/dev/null 2>&1; do [ $SECONDS -lt $deadline ]; sleep 0.05; done
"""
LEFT_NOTHING = """
left=$(etcdctl get --prefix --keys-only /lock/)
[ -z "$left" ] || { echo "left in etcd: $left"; exit 1; }
"""


def readme(language: str) -> str:
    """The first example in a language."""
    text = (roots.ROOT / "README.md").read_text()
    return re.search(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)[1]


def bring(machine: Machine, files: list[Path], directory: str, **texts: str) -> None:
    """Copies files and writes texts into a directory of the user's home, as the user's own."""
    target = machine.scratch / "upper" / machine.user.home.lstrip("/") / directory
    machine.sh(f"mkdir -p ~/{directory}", directory="/")
    for path in files:
        subprocess.run(["cp", "-R", path, target], check=True)
    for name, text in texts.items():
        (target / name.replace("__", ".")).write_text(text)
    machine.sh(f"chown -R {machine.user.number}:{machine.user.number} '{machine.user.home}'", user=ADMIN, directory="/")


@check("wheel", "the Python wheel, without Rust and without a compiler")
def wheel(visit: Visit) -> None:
    machine = visit.alien("wheel", "python3", "python3-venv", tools={"etcd": visit.etcd()})
    bring(machine, visit.packages("wheel"), "app", main__py=readme("python"))
    takes_a_lock(
        machine, "cd ~/app && python3 -m venv venv && venv/bin/pip install --quiet ./*.whl", "venv/bin/python main.py"
    )


@check("npm", "the npm tarballs, without Rust and without a compiler")
def npm(visit: Visit) -> None:
    by_hand = visit.suite in NODE_BY_HAND
    tools = {"etcd": visit.etcd(), **({"node": visit.tools["node"]} if by_hand else {})}
    machine = visit.alien("npm", *([] if by_hand else ["nodejs", "npm"]), tools=tools)
    bring(machine, visit.packages("npm"), "app", main__mjs=readme("js"))
    takes_a_lock(machine, "cd ~/app && npm init -y >/dev/null && npm install --omit=dev ./*.tgz", "node main.mjs")


@check("java", "the Java artefacts in a Maven project, without Rust and without a compiler for C")
def java(visit: Visit) -> None:
    machine = visit.alien("java", "default-jdk-headless", "maven", tools={"etcd": visit.etcd()})
    with tempfile.TemporaryDirectory() as directory:
        texts = {
            "VERSION": coordinates.project_version(),
            "PLUGINS": coordinates.plugins(),
            "README": coordinates.examples()[0],
        }
        bring(machine, [coordinates.project("plain", Path(directory), **texts)], "app")
    bring(machine, visit.packages("java"), ".m2/repository/io")
    takes_a_lock(
        machine,
        "cd ~/app/plain && mvn --batch-mode --quiet compile dependency:copy-dependencies",
        "cd ~/app/plain && java -cp 'target/classes:target/dependency/*' Main",
    )


# --- machines that are a little different ------------------------------------------------------------------------------


@dataclass
class Difference:
    """What is not as usual on a machine where everything is built: the demo has to go on there."""

    name: str
    about: str
    # By the administrator.
    prepare: str = ""
    # By the user, in the checkout, in place of `make demo`. scripts/build.sh is `make build` without what takes minutes to optimise.
    play: str = "make demo"
    state: str = "full"
    machine: dict[str, object] = field(default_factory=dict)
    environment: dict[str, str] = field(default_factory=dict)
    # Of the tools that are installed by hand: what is not there, and what is beside Rust and Go.
    without: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()
    # What must be said, all of it. The demo names its contenders by their languages: " python-3".
    says: tuple[str, ...] = ()


INSTALL = "apt-get update -qq && apt-get install -qq -y --no-install-recommends "
FORGET_ETCD = f"rm -rf {USERS['plain'].home}/.cache/leasehold"
NOBODY = "http://127.0.0.1:9"
DIFFERENCES = [
    Difference(
        "space",
        "a checkout path with a space and a letter beyond ASCII",
        play='mv ~/leasehold "$HOME/my café"; cd "$HOME/my café"; scripts/setup.sh build; scripts/build.sh && make demo',
    ),
    Difference(
        "target-dir",
        "CARGO_TARGET_DIR elsewhere, relative to the checkout; nothing is built into the usual one",
        play="mv target ../elsewhere; scripts/build.sh && make demo; [ ! -e target ] || { find target | head; exit 1; }",
        environment={"CARGO_TARGET_DIR": "../elsewhere"},
    ),
    Difference(
        "proxy",
        "proxies in the environment that nobody answers for: loopback must not go through them",
        environment=dict.fromkeys(
            ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"), NOBODY
        ),
    ),
    Difference("offline", "no network after the first time", machine={"is_offline": True}),
    Difference("no-shm", "a /dev/shm of 1 MB", machine={"shm": "size=1m"}),
    Difference("noexec-tmp", "a /tmp that nothing may be executed from", machine={"tmp": "size=512m,noexec,mode=1777"}),
    Difference("umask", "umask 077", play="umask 077; touch core/src/lib.rs; scripts/build.sh && make demo"),
    Difference(
        "read-only-home",
        "a home that cannot be written to, as in some CI; caches where their tools are told",
        prepare="mkdir /caches && mv /home/dev/leasehold /home/dev/.cargo /caches/ && chown -R dev: /caches; "
        "chown -R root: /home/dev",
        play="cd /caches/leasehold && scripts/setup.sh build && scripts/build.sh && make demo",
        environment={
            "CARGO_HOME": "/caches/.cargo",
            "GOPATH": "/caches/go",
            "GOCACHE": "/caches/go-build",
            "npm_config_cache": "/caches/npm",
            "MAVEN_OPTS": "-Dmaven.repo.local=/caches/m2",
            "PIP_CACHE_DIR": "/caches/pip",
            "XDG_CACHE_HOME": "/caches/xdg",
        },
    ),
    Difference(
        "foreign-checkout",
        "a checkout that belongs to root: it cannot be built there, which is said in a line",
        prepare="chown root: /home/dev/leasehold /home/dev/leasehold/target",
        play="make demo && exit 1; CARGO_TARGET_DIR=$HOME/target scripts/setup.sh demo",
        says=("cannot be written to",),
    ),
    Difference("no-go", "no Go: Debian's etcd is taken", prepare=FORGET_ETCD, state="built", without=("go",)),
    Difference(
        "old-go",
        "a Go that is too old to build etcd: Debian's etcd is taken",
        prepare=f"{FORGET_ETCD}; {INSTALL} golang-go",
        state="built",
        without=("go",),
    ),
    Difference(
        "no-venv",
        "Python without venv and pip: the demo plays it all the same",
        prepare=f"{INSTALL} python3 && ! python3 -c 'import ensurepip'",
        state="built",
        says=(" python-",),
    ),
    Difference(
        "no-registry",
        "registries that nobody answers for: Node and Java are left out in a line each, and etcd is Debian's",
        prepare=f"{FORGET_ETCD} {USERS['plain'].home}/go; {INSTALL} default-jdk-headless maven",
        state="built",
        environment={
            "npm_config_registry": NOBODY,
            "GOPROXY": NOBODY,
            "MAVEN_OPTS": " ".join(
                f"-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort=9" for scheme in ("http", "https")
            ),
        },
        beside=("node",),
        says=(
            "demo: without Node, which could not be built: ",
            "demo: without Java, which could not be built: ",
            " c-",
        ),
    ),
]


def play_difference(difference: Difference) -> Callable[[Visit], None]:
    def play(visit: Visit) -> None:
        machine = visit.start(difference.state, difference.name, **difference.machine)
        machine.environment = difference.environment
        machine.tools = {name: tool for name, tool in machine.tools.items() if name not in difference.without}
        machine.tools |= {name: visit.tools[name] for name in difference.beside}
        if difference.prepare:
            machine.sh(difference.prepare, user=ADMIN, directory="/", DEBIAN_FRONTEND="noninteractive")
        said = machine.sh(difference.play)
        for text in difference.says:
            if text not in said:
                raise Failure(f"it does not say {text!r}:\n{tail(said)}", machine.log)

    return play


for each in DIFFERENCES:
    check(each.name, each.about, is_played_once=True)(play_difference(each))
