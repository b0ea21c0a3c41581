"""Pack every crate as `cargo publish` does, unpack the archives and compile what they contain.

    python3 tools/check_packages.py

`cargo publish --dry-run` can verify the archives itself, but it compiles all dependencies again for each crate. It also keeps the
unpacked crates in cargo's home, keyed by the path of the workspace, so a later run at the same path compiles the old sources.
Therefore cargo only packs and checks the metadata. The archives are compiled here, in a separate workspace that shares the compiled
dependencies of `target`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from archives import unpack

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "target"
PACKAGES = TARGET / "package"
UNPACKED = TARGET / "unpacked"


def main() -> None:
    """Pack, unpack and compile."""
    shutil.rmtree(PACKAGES, ignore_errors=True)
    publish = ["cargo", "publish", "--workspace", "--dry-run", "--no-verify", "--allow-dirty", "--quiet"]
    subprocess.run(publish, check=True, cwd=ROOT, env=os.environ | {"CARGO_TARGET_DIR": str(TARGET)})
    # cargo may keep more than one copy of an archive
    archives = {archive.name: archive for archive in PACKAGES.rglob("*.crate")}
    crates = unpack(archives.values(), UNPACKED / "crates")
    if not crates:
        raise SystemExit(f"cargo packed no crate into {PACKAGES}")
    manifest = ['[workspace]\nresolver = "3"\nmembers = ["crates/*"]\n', "[patch.crates-io]"]
    manifest += [f'{crate.name.rpartition("-")[0]} = {{ path = "crates/{crate.name}" }}' for crate in crates]
    (UNPACKED / "Cargo.toml").write_text("\n".join(manifest) + "\n")
    shutil.copyfile(ROOT / "Cargo.lock", UNPACKED / "Cargo.lock")
    check = ["cargo", "check", "--quiet"]
    environment = os.environ | {"CARGO_TARGET_DIR": str(TARGET)}
    # Alone, the library has only its default features; with the other crates it also has the features that they enable.
    for packages in (["--package", "modelmix"], ["--workspace"]):
        subprocess.run([*check, *packages], check=True, cwd=UNPACKED, env=environment)


if __name__ == "__main__":
    main()
