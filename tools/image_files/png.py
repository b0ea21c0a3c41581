"""PNG files, written chunk by chunk: all colour types and depths, filters, interlacing, transparency, animations."""

import struct
import zlib

import numpy as np

from .pictures import image, picture, saved

# Colour types: the number of samples of a pixel, and the depths that are allowed.
GREY, RGB, PALETTE, GREY_ALPHA, RGBA = 0, 2, 3, 4, 6
CHANNELS = {GREY: 1, RGB: 3, PALETTE: 1, GREY_ALPHA: 2, RGBA: 4}
DEPTHS = {GREY: (1, 2, 4, 8, 16), RGB: (8, 16), PALETTE: (1, 2, 4, 8), GREY_ALPHA: (8, 16), RGBA: (8, 16)}

# First column and row, and distances of columns and rows, of the passes of an interlaced image.
PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))


def chunk(kind, data):
    """A chunk with its length and checksum."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def packed(row, depth):
    """The bytes of a row of samples."""
    if depth == 16:
        return row.astype(">u2").tobytes()
    if depth == 8:
        return row.astype(np.uint8).tobytes()
    bits = (row[:, None] >> np.arange(depth - 1, -1, -1)) & 1
    return np.packbits(bits.astype(np.uint8)).tobytes()


def filtered(kind, row, above, pixel):
    """A row after a filter, with its number in front."""
    out = bytearray([kind])
    for at, value in enumerate(row):
        left = row[at - pixel] if at >= pixel else 0
        up = above[at]
        corner = above[at - pixel] if at >= pixel else 0
        if kind == 1:
            value -= left
        elif kind == 2:
            value -= up
        elif kind == 3:
            value -= (left + up) // 2
        elif kind == 4:
            guess = left + up - corner
            distances = (abs(guess - left), abs(guess - up), abs(guess - corner))
            value -= (left, up, corner)[distances.index(min(distances))]
        out.append(value & 255)
    return bytes(out)


def scanlines(rng, samples, depth):
    """The filtered rows of an image, or of a pass."""
    _, width, channels = samples.shape
    pixel = max(1, channels * depth // 8)
    above = bytes((width * channels * depth + 7) // 8)
    out = []
    for row in samples:
        row = packed(row.reshape(-1), depth)
        out.append(filtered(int(rng.integers(5)), row, above, pixel))
        above = row
    return b"".join(out)


def encoded(rng, samples, colour, depth, *, interlaced=False, before=(), after=(), pieces=None):
    """A PNG file of samples of shape [height, width, channels]."""
    height, width, _ = samples.shape
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, int(interlaced))
    if interlaced:
        passes = [samples[top::down, left::right] for left, top, right, down in PASSES]
        data = b"".join(scanlines(rng, part, depth) for part in passes if part.size)
    else:
        data = scanlines(rng, samples, depth)
    data = zlib.compress(data, int(rng.integers(10)))
    pieces = int(rng.integers(1, 5)) if pieces is None else pieces
    cuts = sorted(int(cut) for cut in rng.integers(0, len(data) + 1, pieces - 1))
    parts = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)])]
    chunks = [chunk(b"IHDR", header), *before, *(chunk(b"IDAT", part) for part in parts), *after]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks) + chunk(b"IEND", b"")


def samples_of(rng, width, height, colour, depth):
    """Random samples. Grey values of 16 bits are sometimes small: Pillow clips the others."""
    samples = picture(rng, width, height, CHANNELS[colour]).astype(np.uint32)
    if depth == 16:
        if colour == GREY and rng.random() < 0.5:
            return samples * 2
        return samples * 256 + rng.integers(0, 256, samples.shape, dtype=np.uint32)
    return samples >> (8 - depth)


def palette(rng, entries):
    """A palette of random colours."""
    return chunk(b"PLTE", rng.integers(0, 256, entries * 3, dtype=np.uint8).tobytes())


def files(rng, width, height):
    """Yield names and files of all variants."""
    for colour, depths in DEPTHS.items():
        for depth in depths:
            for interlaced in (False, True):
                samples = samples_of(rng, width, height, colour, depth)
                before = [palette(rng, 1 << depth)] if colour == PALETTE else []
                file = encoded(rng, samples, colour, depth, interlaced=interlaced, before=before)
                yield f"colour{colour}-depth{depth}{'-interlaced' if interlaced else ''}", file

    # Transparency: all of it is dropped.
    indices = samples_of(rng, width, height, PALETTE, 8)
    for name, alphas in (("one", b"\xff\xff\0\xff"), ("many", bytes(range(200))), ("none", b"\xff" * 256)):
        before = [palette(rng, 256), chunk(b"tRNS", alphas)]
        yield f"palette-alpha-{name}", encoded(rng, indices, PALETTE, 8, before=before)
    for colour, depth in ((GREY, 1), (GREY, 4), (GREY, 8), (GREY, 16), (RGB, 8), (RGB, 16)):
        samples = samples_of(rng, width, height, colour, depth)
        transparent = samples[0, 0].astype(">u2").tobytes()
        yield (
            f"key-colour{colour}-depth{depth}",
            encoded(rng, samples, colour, depth, before=[chunk(b"tRNS", transparent)]),
        )

    # Indices after the end of a short palette are black.
    yield "palette-short", encoded(rng, indices, PALETTE, 8, before=[palette(rng, 20)])

    # Chunks that do not change pixels: gamma, profile, text, background, orientation, unknown ones.
    samples = samples_of(rng, width, height, RGB, 8)
    before = [
        chunk(b"gAMA", struct.pack(">I", 45455)),
        chunk(b"sRGB", b"\0"),
        chunk(b"iCCP", b"name\0\0" + zlib.compress(bytes(300))),
        chunk(b"bKGD", struct.pack(">3H", 1, 2, 3)),
        chunk(b"zTXt", b"key\0\0" + zlib.compress(b"text " * 40)),
        chunk(b"eXIf", b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"),
        chunk(b"prVt", b"private"),
    ]
    yield "other-chunks", encoded(rng, samples, RGB, 8, before=before, after=[chunk(b"tEXt", b"key\0after")])
    yield "garbage-after", encoded(rng, samples, RGB, 8) + rng.bytes(50)
    yield "no-end", encoded(rng, samples, RGB, 8, pieces=1)[:-12]
    yield "empty-chunks", encoded(rng, samples, RGB, 8, before=[chunk(b"IDAT", b"")], pieces=3)

    # An animation whose first frame is the image, and one whose image is not a frame of it.
    control = chunk(b"acTL", struct.pack(">II", 1, 0))
    frame = chunk(b"fcTL", struct.pack(">IIIIIHHBB", 0, width, height, 0, 0, 1, 10, 0, 0))
    yield "animated", encoded(rng, samples, RGB, 8, before=[control, frame])
    other = chunk(b"fdAT", struct.pack(">I", 1) + zlib.compress(scanlines(rng, samples[::-1], 8)))
    yield "animated-default", encoded(rng, samples, RGB, 8, before=[control], after=[frame, other])

    for mode in ("L", "LA", "RGB", "RGBA"):
        yield f"pillow-{mode}", saved(image(rng, width, height, mode), "PNG", optimize=bool(rng.integers(2)))
    yield "pillow-P", saved(image(rng, width, height).quantize(int(rng.integers(2, 257))), "PNG")
    yield "pillow-1", saved(image(rng, width, height, "L").convert("1"), "PNG")
