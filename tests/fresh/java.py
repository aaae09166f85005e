#!/usr/bin/env python3
"""Installs the Java artifacts, makes a Maven project outside the repository, and runs the README's example in it.

The project knows nothing but the coordinates. Ends with 0 if the example ran and left nothing in etcd.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "http://127.0.0.1:2379"

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>com.example</groupId>
  <artifactId>fresh</artifactId>
  <version>1</version>
  <properties>
    <maven.compiler.release>17</maven.compiler.release>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencyManagement>
    <dependencies>
      <dependency>
        <groupId>io.leasehold</groupId>
        <artifactId>leasehold-bom</artifactId>
        <version>VERSION</version>
        <type>pom</type>
        <scope>import</scope>
      </dependency>
    </dependencies>
  </dependencyManagement>
  <dependencies>
    <dependency>
      <groupId>io.leasehold</groupId>
      <artifactId>leasehold</artifactId>
    </dependency>
  </dependencies>
  <build>
    <pluginManagement>
      <plugins>
PLUGINS
      </plugins>
    </pluginManagement>
  </build>
</project>
"""

PROGRAM = """import io.leasehold.*;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;

public class Main {
    public static void main(String[] arguments) throws Exception {
BODY
    }
}
"""


def example() -> str:
    """What the README shows."""
    return re.search(r"^```java\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)[1]


def plugins() -> str:
    """The same versions of Maven's plugins as the project's own: they are there already."""
    parent = (ROOT / "bindings-java/pom.xml").read_text()
    found = re.findall(r"<artifactId>(maven-[a-z]+-plugin)</artifactId>\s*<version>([^<]+)</version>", parent)
    return "\n".join(f"<plugin><artifactId>{name}</artifactId><version>{version}</version></plugin>" for name, version in found)


def version() -> str:
    """The project's one version."""
    return re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)[1]


def main() -> int:
    subprocess.run([ROOT / "scripts/maven.sh", "--untested", "install"], check=True)
    with tempfile.TemporaryDirectory() as directory, subprocess.Popen(
        [ROOT / "target/debug/leasehold-etcd"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as etcd:
        endpoint = json.loads(etcd.stdout.readline())["endpoints"][0]
        project = Path(directory)
        (project / "src/main/java").mkdir(parents=True)
        (project / "pom.xml").write_text(POM.replace("VERSION", version()).replace("PLUGINS", plugins()))
        program = PROGRAM.replace("BODY", example().replace(ADDRESS, endpoint))
        (project / "src/main/java/Main.java").write_text(program)
        goals = ["compile", "dependency:copy-dependencies"]
        subprocess.run(["mvn", "--batch-mode", "--quiet", "--offline", *goals], cwd=project, check=True)
        libraries = sorted(path.name for path in (project / "target/dependency").iterdir())
        ran = subprocess.run(
            ["java", "-cp", "target/classes:target/dependency/*", "Main"], cwd=project, capture_output=True, text=True, timeout=60
        )
        print(f"{', '.join(libraries)}: {ran.stdout.strip()}")
        print(ran.stderr, file=sys.stderr, end="")
        etcd.stdin.close()
        return ran.returncode or int("mine, with the token" not in ran.stdout or ran.stderr != "")


if __name__ == "__main__":
    sys.exit(main())
