"""BMP and DIB files, written byte by byte: all depths, headers, palettes, channel orders and run lengths."""

import struct

import numpy as np

from .pictures import image, picture, saved

NONE, RLE8, RLE4, BITFIELDS = range(4)


def rows(samples, bits, top_down):
    """Padded rows of indices or packed pixels: an array of shape [height, width] of integers."""
    out = []
    for row in samples if top_down else samples[::-1]:
        if bits < 8:
            data = np.packbits(((row[:, None] >> np.arange(bits - 1, -1, -1)) & 1).astype(np.uint8)).tobytes()
        else:
            data = row.astype("<u4").view(np.uint8).reshape(-1, 4)[:, : bits // 8].tobytes()
        out.append(data + bytes(-len(data) % 4))
    return b"".join(out)


def header(width, height, bits, *, length=40, compression=NONE, colours=0, top_down=False, masks=()):
    """A header of any length, with the channels' bits inside or after it."""
    if length == 12:
        return struct.pack("<IHHHH", 12, width, height, 1, bits)
    rows = -height if top_down else height
    out = struct.pack("<IiiHHIIiiII", length, width, rows, 1, bits, compression, 0, 2835, 2835, colours, 0)
    fields = b"".join(struct.pack("<I", mask) for mask in masks)
    if length == 40:
        return out + fields[:12]
    return (out + fields).ljust(length, b"\0")


def file(info, palette, data, *, gap=0, start=None):
    """A BMP file; `gap` bytes before the pixels, or a wrong start of them."""
    at = 14 + len(info) + len(palette) + gap
    return (
        b"BM"
        + struct.pack("<IHHI", at + len(data), 0, 0, at if start is None else start)
        + info
        + palette
        + bytes(gap)
        + data
    )


def palette(rng, colours, entry=4):
    """Random colours of 3 or 4 bytes each."""
    return np.pad(rng.integers(0, 256, (colours, 3), dtype=np.uint8), ((0, 0), (0, entry - 3))).tobytes()


def grey(colours, entry=4, step=1):
    """A ramp of grey values."""
    return b"".join(bytes([index * step & 255] * 3 + [0] * (entry - 3)) for index in range(colours))


def run_lengths(rng, indices, four_bits):
    """Runs, literal stretches and ends of lines, from the bottom row to the top one."""
    out = bytearray()
    for row in indices[::-1]:
        at = 0
        while at < len(row):
            left = len(row) - at
            if left >= 3 and rng.random() < 0.4:
                count = int(rng.integers(3, min(left, 40) + 1))
                part = [int(value) for value in row[at : at + count]]
                if four_bits:
                    pairs = part + [0] * (count % 2)
                    data = bytes(high << 4 | low for high, low in zip(pairs[::2], pairs[1::2]))
                else:
                    data = bytes(part)
                out += bytes([0, count]) + data + bytes(len(data) % 2)
            else:
                count = 1
                while count < min(left, 255) and row[at + count] == row[at]:
                    count += 1
                value = int(row[at])
                out += bytes([count, value << 4 | value if four_bits else value])
            at += count
        out += b"\0\0"
    return bytes(out) + b"\0\1"


def files(rng, width, height):
    """Yield names and files of all variants."""

    def indices(bits):
        return picture(rng, width, height, 1)[:, :, 0].astype(np.uint32) >> (8 - bits)

    def pixels(bits):
        return rng.integers(0, 1 << bits, (height, width), dtype=np.uint32)

    for bits in (1, 4, 8):
        for top_down in (False, True):
            data = rows(indices(bits), bits, top_down)
            info = header(width, height, bits, top_down=top_down)
            name = f"bits{bits}{'-top-down' if top_down else ''}"
            yield name, file(info, palette(rng, 1 << bits), data)
        info = header(width, height, bits, length=12)
        yield f"bits{bits}-core", file(info, palette(rng, 1 << bits, 3), rows(indices(bits), bits, False))
        info = header(width, height, bits, colours=2)
        yield f"bits{bits}-two-colours", file(info, palette(rng, 2), rows(indices(bits), bits, False))
        info = header(width, height, bits)
        forgotten = file(info, palette(rng, 1 << bits), rows(indices(bits), bits, False), start=54)
        yield f"bits{bits}-start-at-palette", forgotten
    eight = rows(indices(8), 8, False)
    yield "bits8-grey", file(header(width, height, 8), grey(256), eight)
    yield "bits8-grey-core", file(header(width, height, 8, length=12), grey(256, 3), eight)
    yield "bits1-grey", file(header(width, height, 1), grey(2, step=255), rows(indices(1), 1, False))
    yield "bits1-white-first", file(header(width, height, 1), grey(2, step=255)[::-1], rows(indices(1), 1, False))
    yield "bits8-black-and-white", file(header(width, height, 8, colours=2), grey(2, step=255), eight)
    yield "bits8-grey-short", file(header(width, height, 8, colours=100), grey(100), eight)
    yield "bits8-many-colours", file(header(width, height, 8, colours=300), palette(rng, 300), eight)
    yield "bits4-grey-ramp", file(header(width, height, 4), grey(16), rows(indices(4), 4, False))
    yield "bits8-gap", file(header(width, height, 8), palette(rng, 256), eight, gap=10)
    yield "bits8-start-zero", file(header(width, height, 8), palette(rng, 256), eight, start=0)
    yield "bits8-last-row-short", file(header(width, height, 8), palette(rng, 256), eight[: len(eight) - -width % 4])

    for bits in (16, 24, 32):
        for length in (12, 40, 52, 56, 64, 108, 124):
            info = header(width, height, bits, length=length)
            yield f"bits{bits}-header{length}", file(info, b"", rows(pixels(bits), bits, False))
        info = header(width, height, bits, top_down=True)
        yield f"bits{bits}-top-down", file(info, b"", rows(pixels(bits), bits, True))
    orders = {
        16: [(0xF800, 0x7E0, 0x1F, 0), (0x7C00, 0x3E0, 0x1F, 0)],
        24: [(0xFF0000, 0xFF00, 0xFF, 0)],
        32: [
            (0xFF0000, 0xFF00, 0xFF, 0),
            (0xFF000000, 0xFF0000, 0xFF00, 0),
            (0xFF000000, 0xFF00, 0xFF, 0),
            (0xFF000000, 0xFF0000, 0xFF00, 0xFF),
            (0xFF, 0xFF00, 0xFF0000, 0xFF000000),
            (0xFF0000, 0xFF00, 0xFF, 0xFF000000),
            (0xFF000000, 0xFF00, 0xFF, 0xFF0000),
            (0, 0, 0, 0),
            (0xFF, 0xFF00, 0xFF0000, 0),
        ],
    }
    for bits, choices in orders.items():
        for at, masks in enumerate(choices):
            for length in (40, 52, 56, 124):
                info = header(width, height, bits, length=length, compression=BITFIELDS, masks=masks)
                yield f"fields{bits}-{at}-header{length}", file(info, b"", rows(pixels(bits), bits, False))

    for name, bits, compression in (("rle8", 8, RLE8), ("rle4", 4, RLE4)):
        four_bits = compression == RLE4
        flat = indices(bits) // 8 * 8 if bits == 8 else indices(bits) // 4 * 4
        info = header(width, height, bits, compression=compression)
        data = run_lengths(rng, flat, four_bits)
        yield name, file(info, palette(rng, 1 << bits), data)
        yield f"{name}-odd-start", file(info, palette(rng, 1 << bits), data, gap=1)
        yield f"{name}-grey", file(info, grey(1 << bits), data)
        two = header(width, height, bits, compression=compression, colours=2)
        yield f"{name}-black-and-white", file(two, grey(2, step=255), run_lengths(rng, indices(bits) % 2, four_bits))
        # A jump, runs that are longer than a row, and rows that end early.
        value = 0x31 if four_bits else 9
        jumps = bytes([2, value, 0, 2, 1, 1]) + bytes([255, value, 0, 0]) * (height + 3)
        yield f"{name}-jumps", file(info, palette(rng, 1 << bits), jumps)
        ends = bytes([1, value, 0, 0]) * height
        yield f"{name}-short-rows", file(info, palette(rng, 1 << bits), ends + b"\0\1")
        yield f"{name}-ends-early", file(info, palette(rng, 1 << bits), bytes([1, value, 0, 1]))

    info = header(width, height, 24)
    yield "dib24", info + rows(pixels(24), 24, False)
    yield "dib8", header(width, height, 8) + palette(rng, 256) + eight
    yield "garbage-after", file(info, b"", rows(pixels(24), 24, False)) + rng.bytes(30)
    for mode in ("L", "RGB", "RGBA"):
        yield f"pillow-{mode}", saved(image(rng, width, height, mode), "BMP")
    yield "pillow-P", saved(image(rng, width, height).quantize(16), "BMP")
    yield "pillow-1", saved(image(rng, width, height, "L").convert("1"), "BMP")
