"""Build the wheel from the source distribution, as `pip install` of a release does, and install it.

    python tools/build_wheel.py [--profile dev]

Run it with the Python for which the wheel is built; that environment needs maturin. The source distribution is unpacked into
`target/sdist`. Only changed files are rewritten there, so cargo rebuilds only what changed. Compiled dependencies are shared with
all other builds of the workspace.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

from archives import unpack

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "target"
SOURCE = TARGET / "sdist" / "source"
WHEELS = TARGET / "wheels"
CRATES = ["modelmix", "modelmix-cuda", "modelmix-encode", "modelmix-python"]


def main() -> None:
    """Build and install."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", default="release", help="cargo profile [default: release]")
    profile = parser.parse_args().profile
    folder = TARGET / "sdist" / "archive"
    for stale in (folder, WHEELS):
        shutil.rmtree(stale, ignore_errors=True)
    maturin = [sys.executable, "-m", "maturin"]
    subprocess.run([*maturin, "sdist", "-m", ROOT / "python" / "Cargo.toml", "-o", folder], check=True)
    (archive,) = folder.glob("modelmix-*.tar.gz")
    (source,) = unpack([archive], SOURCE)
    # cargo takes the unpacked crates for those of the workspace, which have the same paths below its root, and would not notice a
    # change of the one or the other. With another profile, they are others.
    apart = [f"--config profile.{profile}.package.{crate}.codegen-units=5" for crate in CRATES]
    environment = os.environ | {
        "CARGO_TARGET_DIR": str(TARGET),
        "MATURIN_PEP517_ARGS": " ".join([f"--profile {profile}", *apart]),
        # the build backend of the wheel runs maturin by name
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", WHEELS, source]
    subprocess.run(build, check=True, env=environment)
    (wheel,) = WHEELS.glob("modelmix-*.whl")
    subprocess.run([*pip, "install", "--force-reinstall", "--no-deps", wheel], check=True)


if __name__ == "__main__":
    main()
