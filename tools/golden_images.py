"""Writes small image files of every kind, and what Pillow makes of them, for the tests of the decoders.

Run with Pillow 13. The files go to `crates/modelmix-encode/tests/fixtures/images.zip`, uncompressed; the sizes and
SHA-256 of the pixels of `Image.open(file).convert("RGB")` to `crates/modelmix-encode/tests/golden/images.json`.
"""

import hashlib
import io
import json
import pathlib
import sys
import warnings
import zipfile

import numpy as np
import PIL
from image_files import FORMATS
from image_files.pictures import image, saved
from PIL import Image

TESTS = pathlib.Path(__file__).parents[1] / "crates" / "modelmix-encode" / "tests"

# Odd sizes, so that blocks, rows of bits and pairs of bytes end in the middle.
SIZES = {"png": (11, 9), "jpg": (19, 21), "webp": (21, 18), "gif": (13, 11), "bmp": (11, 6)}

# Formats that Pillow reads and modelmix does not.
OTHER = {"tiff": {}, "avif": {"quality": 50}, "ppm": {}, "jpeg2000": {}, "ico": {}}


def pixels(data):
    """What Pillow makes of a file: the size and the SHA-256 of its pixels, or None if it refuses it."""
    try:
        with Image.open(io.BytesIO(data)) as opened:
            decoded = opened.convert("RGB")
    except (OSError, SyntaxError, ValueError, EOFError, IndexError):
        return None
    return {"width": decoded.width, "height": decoded.height, "sha256": hashlib.sha256(decoded.tobytes()).hexdigest()}


def main():
    """Write the files and the golden values."""
    if not PIL.__version__.startswith("13."):
        sys.exit(f"this is Pillow {PIL.__version__}; golden values come from Pillow 13")
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(15)
    golden, names = [], set()
    archive = TESTS / "fixtures" / "images.zip"
    archive.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive, "w") as out:
        for extension, files in FORMATS.items():
            for variant, data in files(rng, *SIZES[extension]):
                name = f"{extension}/{variant}.{extension}"
                assert name not in names, name
                names.add(name)
                # One date for all, so that the archive only changes if its files do.
                out.writestr(zipfile.ZipInfo(name), data)
                golden.append({"file": name, "pixels": pixels(data)})
        for extension, options in OTHER.items():
            data = saved(image(rng, 16, 16), extension, **options)
            out.writestr(zipfile.ZipInfo(f"other/image.{extension}"), data)
    path = TESTS / "golden" / "images.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = ",\n".join(json.dumps(case) for case in golden)
    path.write_text(f'{{"pillow": "{PIL.__version__}", "files": [\n{lines}\n]}}\n')
    refused = [case["file"] for case in golden if case["pixels"] is None]
    print(f"{len(golden)} files, {archive.stat().st_size} bytes; Pillow refuses {', '.join(refused)}")


if __name__ == "__main__":
    main()
