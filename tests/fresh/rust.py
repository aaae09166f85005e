#!/usr/bin/env python3
"""Uses the crate as a newcomer's program does: in a project outside of the repository, with the newest of every dependency.

The program also uses etcd-client by itself, in another minor requirement than ours, and sees one version of it. Ends with 0 if it
was built and took a lock.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Kept between runs: all the dependencies are built for it.
TARGET = Path(subprocess.run([ROOT / "scripts/target"], capture_output=True, text=True, check=True).stdout.strip()) / "fresh-rust"
MANIFEST = f"""
[package]
name = "newcomer"
version = "0.0.0"
edition = "2024"

[dependencies]
leasehold = {{ path = '{ROOT / "core"}' }}
etcd-client = "0.21"
tokio = {{ version = "1", features = ["macros", "rt-multi-thread"] }}

[workspace]
"""
PROGRAM = """
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let _theirs = etcd_client::ConnectOptions::new();
    let client = leasehold::Client::new("memory://newcomer")?;
    let guard = client.lock("/lock/mylock").acquire().await?;
    println!("token {}", guard.token());
    guard.release().await?;
    client.close().await?;
    Ok(())
}
"""


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="leasehold-fresh-") as directory:
        project = Path(directory)
        (project / "src").mkdir()
        (project / "Cargo.toml").write_text(MANIFEST)
        (project / "src/main.rs").write_text(PROGRAM)
        cargo = ["cargo", "run", "--quiet"]
        environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
        done = subprocess.run(cargo, cwd=project, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        versions = [line for line in (project / "Cargo.lock").read_text().splitlines() if line == 'name = "etcd-client"']
    if done.returncode != 0 or not done.stdout.startswith("token "):
        print(f"the newcomer's program ended with {done.returncode} and said {done.stdout!r}")
        return 1
    if len(versions) != 1:
        print(f"{len(versions)} versions of etcd-client in one program")
        return 1
    print(f"built with the newest dependencies; {done.stdout.strip()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
