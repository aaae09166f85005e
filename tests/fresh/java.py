#!/usr/bin/env python3
"""Installs the Java artifacts and uses them as a newcomer does: in Maven projects outside of the repository.

The projects know nothing but the coordinates, and get the examples of the README as they stand there. `plain` runs its example on a
class path. `shop` is a Spring Boot service, packaged as a fat jar: under `java -jar` it takes a lock, and its health and its
meters are asked, and once more on Spring Boot 3.5, where it has no health. The jars have the licence and the notices, and their
descriptions what Maven Central asks for. Ends with 0 if all of that worked and nothing was left in etcd.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from contextlib import contextmanager
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
# Cargo's.
TARGET = Path(subprocess.run([ROOT / "scripts/target"], capture_output=True, text=True, check=True).stdout.strip())
ADDRESS = "http://127.0.0.1:2379"
# What users get; the rest are programs of ours.
MODULES = ["bom", "leasehold-test", "spring/reactor", "spring/locked", "spring/integration", "spring/shedlock", "spring/starter"]
# Beside the one that the starter is built for.
BOOT_3 = "3.5.8"
START_SECONDS = 60
# All that is asked is on loopback, where no proxy of the environment can help.
DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
# How a JVM ends that was told to by SIGTERM.
TERMINATED = 128 + 15


class Failure(Exception):
    """What a newcomer would have stumbled over."""


def examples() -> list[str]:
    """What the README shows in Java: the client, and a method under a lock."""
    return re.findall(r"^```java\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)


def only(pattern: str, path: str) -> str:
    """The one place in a file that says it."""
    return re.search(pattern, (ROOT / path).read_text(), re.MULTILINE)[1]


def project_version() -> str:
    return only(r'^version = "(.*)"$', "Cargo.toml")


def plugins() -> str:
    """The same versions of Maven's plugins as the project's own: they are there already."""
    parent = (ROOT / "bindings-java/pom.xml").read_text()
    found = re.findall(r"<artifactId>(maven-[a-z]+-plugin)</artifactId>\s*<version>([^<]+)</version>", parent)
    return "\n".join(f"<plugin><artifactId>{name}</artifactId><version>{version}</version></plugin>" for name, version in found)


def install(directory: Path) -> Path:
    """A local repository with what others have published, and what we install: not what an older build has installed."""
    repository, usual = directory / "repository", Path.home() / ".m2/repository"
    (repository / "io").mkdir(parents=True)
    for path in [*usual.glob("*"), *usual.glob("io/*")]:
        if path.name not in ("io", "leasehold"):
            (repository / path.relative_to(usual)).symlink_to(path)
    # For a release the library that users get; for `make test` that of its own build, which takes no minutes to optimise.
    library = ["--dev-library"] if "--dev-library" in sys.argv else []
    # With the jars of sources. Those of documentation take as long as all the rest, and the tests of Java make them.
    release = ["-Prelease", "-Dmaven.javadoc.skip=true"]
    command = [ROOT / "scripts/maven.sh", *library, "--untested", "install", "-pl", ",".join(MODULES), "-am", *release]
    subprocess.run([*command, f"-Dmaven.repo.local={repository}"], check=True)
    return repository


def look_for_notices(repository: Path) -> None:
    """Our licence, and what those of the crates in the native library ask to pass on, in each jar that was installed."""
    jars = sorted((repository / "io/leasehold").rglob("*.jar"))
    if len(jars) != 2 * len([module for module in ["leasehold", *MODULES] if module != "bom"]):
        raise Failure(f"these jars were installed, not one and its sources for each module: {jars}")
    for jar in jars:
        with zipfile.ZipFile(jar) as opened:
            for name in ("LICENSE", "THIRD-PARTY-NOTICES.txt"):
                if f"META-INF/{name}" not in opened.namelist() or opened.read(f"META-INF/{name}") != (ROOT / name).read_bytes():
                    raise Failure(f"{jar.name} has no {name}, or another one")
    print(f"licence and notices: in {len(jars)} jars", flush=True)


# What Maven Central refuses a description without (central.sonatype.org/publish/requirements); parents may say it.
DESCRIBED = ["name", "description", "url", "licenses/license/name", "licenses/license/url", "developers/developer/name", "scm/url"]
DESCRIBED += ["scm/connection", "scm/developerConnection"]
POM = "{http://maven.apache.org/POM/4.0.0}"


def look_for_descriptions(repository: Path) -> None:
    """Everything that was installed says who made it, where, and under which licence; none of it is for tests of our own."""
    poms = sorted((repository / "io/leasehold").rglob("*.pom"))
    roots = {pom.parent.parent.name: ElementTree.parse(pom).getroot() for pom in poms}
    for name, root in roots.items():
        for wanted in DESCRIBED:
            path, where = "/".join(POM + step for step in wanted.split("/")), root
            # The name is each one's own.
            while not where.findtext(path) and wanted != "name" and (parent := where.findtext(f"{POM}parent/{POM}artifactId")):
                where = roots[parent]
            if not where.findtext(path):
                raise Failure(f"the description of {name} has no {wanted}")
    print(f"descriptions: {', '.join(roots)}", flush=True)


def project(name: str, directory: Path, **texts: str) -> Path:
    """A copy of a project outside of the repository, with its gaps filled in."""
    copy = directory / name
    shutil.copytree(HERE / name, copy)
    for path in copy.rglob("*.*"):
        filled = path.read_text()
        for gap, text in texts.items():
            filled = filled.replace(f"@{gap}@", text)
        path.write_text(filled)
    return copy


def maven(where: Path, repository: Path, *goals: str) -> None:
    command = ["mvn", "--batch-mode", "--quiet", f"-Dmaven.repo.local={repository}", *goals]
    done = subprocess.run(command, cwd=where, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"{' '.join(command)} in {where.name}:\n{done.stdout}{done.stderr}")


@contextmanager
def etcd():
    """The endpoint of a real etcd, in which nothing may be left."""
    program = TARGET / "debug/leasehold-etcd"
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            endpoint = json.loads(process.stdout.readline())["endpoints"][0]
            yield endpoint
            if leases := ask(f"{endpoint}/v3/lease/leases", {}).get("leases"):
                raise Failure(f"the leases {leases} are left in etcd")
        finally:
            process.stdin.close()


def ask(url: str, body: dict | None = None) -> dict:
    data = None if body is None else json.dumps(body).encode()
    with DIRECT.open(urllib.request.Request(url, data), timeout=30) as response:
        return json.load(response)


def run_plain(directory: Path, repository: Path, version: str) -> None:
    with etcd() as endpoint:
        readme = examples()[0].replace(ADDRESS, endpoint)
        where = project("plain", directory, VERSION=version, PLUGINS=plugins(), README=readme)
        maven(where, repository, "compile", "dependency:copy-dependencies")
        libraries = sorted(path.name for path in (where / "target/dependency").iterdir())
        command = ["java", "-cp", "target/classes:target/dependency/*", "Main"]
        ran = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=60, check=False)
        if ran.returncode != 0 or "mine, with the token" not in ran.stdout or ran.stderr:
            raise Failure(f"the example ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
    print(f"plain, with {', '.join(libraries)}: {ran.stdout.strip()}", flush=True)


def run_shop(directory: Path, repository: Path, version: str, boot: str) -> None:
    readme, is_boot_3 = next(example for example in examples() if "@Locked" in example), boot == BOOT_3
    directory = directory / boot
    directory.mkdir()
    web = "web" if is_boot_3 else "webmvc"
    where = project("shop", directory, VERSION=version, BOOT=boot, WEB=web, README=readme)
    maven(where, repository, "package")
    log = where / "shop.log"
    with etcd() as endpoint, log.open("w") as output:
        command = ["java", "-jar", "target/shop-1.jar", "--server.port=0", f"--leasehold.endpoints={endpoint}"]
        process = subprocess.Popen(command, cwd=where, stdout=output, stderr=subprocess.STDOUT)
        try:
            told = visit(f"http://127.0.0.1:{port(process, log)}", None if is_boot_3 else "UP")
        finally:
            process.terminate()
            ended = process.wait(START_SECONDS)
        if ended != TERMINATED:
            raise Failure(f"the service ended with {ended}:\n{log.read_text()}")
    print(f"shop, on Spring Boot {boot} under java -jar: {told}", flush=True)


def port(process: subprocess.Popen, log: Path) -> str:
    """Where the service listens, once it has started."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        said = log.read_text()
        if "Started Shop" in said and (found := re.search(r"started on port (\d+)", said)):
            return found[1]
        time.sleep(0.05)
    raise Failure(f"the service did not start:\n{log.read_text()}")


def visit(service: str, wanted_health: str | None) -> str:
    """Lets the service take a lock, and asks what it says about that."""
    entry = ask(f"{service}/pay/7", {})
    if entry["token"] != entry["owner"]:
        raise Failure(f"the method ran with the token of somebody who was not first in the queue: {entry}")
    health = ask(f"{service}/actuator/health")["components"].get("leasehold", {})
    if health.get("status") != wanted_health:
        raise Failure(f"the health is {health}, not {wanted_health}")
    wanted = {"acquire?tag=outcome:acquired": 1, "hold": 1, "held": 0}
    meters = {meter: ask(f"{service}/actuator/metrics/leasehold.{meter}")["measurements"][0]["value"] for meter in wanted}
    if meters != wanted:
        raise Failure(f"the meters are {meters}, not {wanted}")
    return f"paid with the token {entry['token']}; health {health}; meters {meters}"


def main() -> int:
    version = project_version()
    boot = only("<spring-boot.version>(.*)</spring-boot.version>", "bindings-java/spring/pom.xml")
    with tempfile.TemporaryDirectory(prefix="fresh-") as directory:
        repository = install(Path(directory))
        try:
            look_for_notices(repository)
            look_for_descriptions(repository)
            run_plain(Path(directory), repository, version)
            for each in (boot, BOOT_3):
                run_shop(Path(directory), repository, version, each)
        except Failure as failure:
            print(failure, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
