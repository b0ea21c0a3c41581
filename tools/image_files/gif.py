"""GIF files, written block by block: palettes, interlacing, transparency, frames unlike their screen, animations."""

import struct

import numpy as np

from .pictures import image, picture, saved


def lzw(indices, bits, clear_every=None):
    """Compresses indices; the table is emptied when it is full, or after every `clear_every` codes."""
    clear, end = 1 << bits, (1 << bits) + 1
    out, held, length = bytearray(), 0, 0

    def put(code, width):
        nonlocal held, length
        held |= code << length
        length += width
        while length >= 8:
            out.append(held & 255)
            held >>= 8
            length -= 8

    table, width, written = {}, bits + 1, 0
    put(clear, width)
    string = None
    for index in indices:
        index = int(index)
        if string is None:
            string = index
        elif (string, index) in table:
            string = table[string, index]
        else:
            put(string, width)
            written += 1
            code = end + 1 + len(table)
            if code < 4096:
                table[string, index] = code
                if code == 1 << width and width < 12:
                    width += 1
            if code == 4095 or (clear_every and written % clear_every == 0):
                put(clear, width)
                table, width = {}, bits + 1
            string = index
    put(string, width)
    # The decoder adds an entry for this code too.
    if end + 1 + len(table) == 1 << width and width < 12:
        width += 1
    put(end, width)
    if length:
        out.append(held & 255)
    return bytes(out)


def blocks(data, size=255):
    """Data in blocks of at most `size` bytes."""
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(bytes([len(part)]) + part for part in parts) + b"\0"


def colours(rng, bits, ramp=False):
    """A palette of random colours, or of grey values."""
    if ramp:
        return bytes(value for grey in range(1 << bits) for value in [grey] * 3)
    return rng.integers(0, 256, 3 << bits, dtype=np.uint8).tobytes()


def frame(rng, indices, bits, *, left=0, top=0, local=b"", interlaced=False, clear_every=None, code_bits=None):
    """A frame with its place, palette and compressed indices."""
    height, width = indices.shape
    flags = (0x80 | bits - 1 if local else 0) | (0x40 if interlaced else 0)
    if interlaced:
        indices = np.concatenate([indices[start::step] for start, step in ((0, 8), (4, 8), (2, 4), (1, 2))])
    code_bits = max(2, bits) if code_bits is None else code_bits
    data = lzw(indices.reshape(-1), code_bits, clear_every)
    header = struct.pack("<BHHHHB", 0x2C, left, top, width, height, flags)
    return header + local + bytes([code_bits]) + blocks(data, int(rng.integers(1, 256)))


def screen(width, height, palette=b"", background=0):
    """The start of a file, with a palette for all frames."""
    bits = (len(palette) // 3).bit_length() - 1
    flags = 0x80 | bits - 1 if palette else 0
    return b"GIF89a" + struct.pack("<HHBBB", width, height, flags, background, 0) + palette


def control(transparent=None, disposal=0):
    """The extension with the transparent colour and the disposal of the next frame."""
    flags = disposal << 2 | (transparent is not None)
    return b"!\xf9\x04" + struct.pack("<BHB", flags, 5, transparent or 0) + b"\0"


def files(rng, width, height):
    """Yield names and files of all variants."""

    def indices(bits, columns=width, rows=height):
        return picture(rng, columns, rows, 1)[:, :, 0] >> (8 - bits)

    for bits in range(1, 9):
        palette = colours(rng, bits)
        yield f"bits{bits}", screen(width, height, palette) + frame(rng, indices(bits), bits) + b";"
        interlaced = frame(rng, indices(bits), bits, interlaced=True)
        yield f"bits{bits}-interlaced", screen(width, height, palette) + interlaced + b";"

    palette = colours(rng, 8)
    full = frame(rng, indices(8), 8)
    start = screen(width, height, palette, background=7)
    local = frame(rng, indices(4), 4, local=colours(rng, 4))
    yield "local", start + local + b";"
    yield "only-local", screen(width, height) + local + b";"
    yield "no-palette", screen(width, height) + full + b";"
    yield "ramp", screen(width, height, colours(rng, 4, ramp=True)) + full + b";"
    yield "ramp-whole", screen(width, height, colours(rng, 8, ramp=True)) + full + b";"
    yield "local-ramp", start + frame(rng, indices(8), 4, local=colours(rng, 4, ramp=True), code_bits=8) + b";"
    yield "palette-short", screen(width, height, colours(rng, 3)) + full + b";"
    yield "transparent", start + control(3) + frame(rng, indices(4), 8) + b";"
    yield "cleared-often", start + frame(rng, indices(8), 8, clear_every=5) + b";"

    # A frame that does not cover its screen, one beyond it, and one on no screen at all.
    small = {"left": int(rng.integers(0, 4)), "top": int(rng.integers(0, 4)), "interlaced": bool(rng.integers(2))}
    large = screen(width + 5, height + 6, palette, background=7)
    yield "smaller", large + frame(rng, indices(8), 8, **small) + b";"
    for transparent in (0, 9, 255):
        yield (
            f"smaller-transparent{transparent}",
            large + control(transparent) + frame(rng, indices(8), 8, **small) + b";",
        )
    yield "beyond", start + control(5) + frame(rng, indices(8), 8, left=3, top=2) + b";"
    yield "no-screen", screen(0, 0, palette) + full + b";"

    # Disposal of the first frame, comments, loops, unknown extensions and bytes between blocks.
    for disposal in (1, 2, 3):
        second = frame(rng, indices(8), 8)
        yield f"animated-disposal{disposal}", start + control(1, disposal) + full + control(2) + second + b";"
    extensions = b"!\xff\x0bNETSCAPE2.0\x03\x01\0\0\0" + b"!\xfe\x05hello\0" + b"!\xfe\0" + b"!\x01\x02ab\x01c\0"
    yield "extensions", start + extensions + control(4) + b"\0\0" + full + b";"
    yield "version87", b"GIF87a" + start[6:] + full + b";"
    yield "garbage-after", start + full + b";" + rng.bytes(40)
    yield "no-trailer", start + full

    for colours_of_palette in (2, 7, 256):
        quantized = image(rng, width, height).quantize(colours_of_palette)
        yield f"pillow-{colours_of_palette}", saved(quantized, "GIF", interlace=int(rng.integers(2)))
    yield "pillow-L", saved(image(rng, width, height, "L"), "GIF")
    frames = [image(rng, width, height).quantize(32) for _ in range(3)]
    yield "pillow-animated", saved(frames[0], "GIF", save_all=True, append_images=frames[1:], loop=0)
