"""Compares modelmix's decoders with Pillow on random images of every kind, and says where they differ.

    python tools/compare_decoders.py target/release/examples/decode [--per-format 500] [--seed 1] [--damaged]

The program is `cargo build --release -p modelmix-encode --example decode`. With `--damaged`, bytes of the files are
changed or cut off, and the table counts how often both refuse them, or both read them to the same pixels.
"""

import argparse
import collections
import hashlib
import io
import pathlib
import subprocess
import tempfile
import warnings

import numpy as np
from image_files import FORMATS
from PIL import Image


def by_pillow(data):
    """What Pillow makes of a file: its size and a hash of its pixels, or why it refuses it."""
    try:
        with Image.open(io.BytesIO(data)) as opened:
            decoded = opened.convert("RGB")
    except Exception as error:  # Pillow raises errors of many types for files that it cannot read.
        return f"refused {error}"
    return f"{decoded.width} {decoded.height} {hashlib.sha256(decoded.tobytes()).hexdigest()}"


def damage(rng, data):
    """The file with some bytes changed, or cut."""
    data = bytearray(data)
    if rng.random() < 0.5:
        return bytes(data[: rng.integers(1, len(data))])
    for at in rng.integers(0, len(data), rng.integers(1, 4)):
        data[at] = rng.integers(0, 256)
    return bytes(data)


def random_files(rng, extension, count):
    """At least `count` files of all variants, of random sizes."""
    made = 0
    while made < count:
        width, height = (int(side) for side in rng.integers(1, 70, 2))
        for name, data in FORMATS[extension](rng, width, height):
            yield f"{name}-{width}x{height}", data
            made += 1


def main():
    """Compare all formats."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--per-format", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--damaged", action="store_true")
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=list(FORMATS))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(arguments.seed)
    differences = 0
    for extension in arguments.formats:
        with tempfile.TemporaryDirectory() as folder:
            files = []
            for name, data in random_files(rng, extension, arguments.per_format):
                data = damage(rng, data) if arguments.damaged else data
                path = pathlib.Path(folder) / str(len(files))
                path.write_bytes(data)
                files.append((name, path, by_pillow(data)))
            listed = "".join(f"{path}\n" for _, path, _ in files)
            run = subprocess.run([arguments.program], input=listed, capture_output=True, text=True, check=True)
            outcomes = collections.Counter()
            for (name, _, pillow), ours in zip(files, run.stdout.splitlines(), strict=True):
                refused = pillow.startswith("refused"), ours.startswith("refused")
                outcome = {
                    (True, True): "both refuse",
                    (True, False): "only Pillow refuses",
                    (False, True): "only modelmix refuses",
                    (False, False): "equal" if pillow == ours else "different pixels",
                }[refused]
                outcomes[outcome] += 1
                if outcome not in ("equal", "both refuse"):
                    differences += 1
                    if outcomes[outcome] <= 5:
                        print(f"  {extension} {name}: {outcome}: Pillow {pillow[:60]}; modelmix {ours[:90]}")
            counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
            print(f"{extension}: {len(files)} files: {counts}")
    if differences and not arguments.damaged:
        raise SystemExit(f"{differences} files differ")


if __name__ == "__main__":
    main()
