"""JPEG files: Pillow's, and ones encoded here from random coefficients, with sampling factors and markers of any kind."""

import struct

import numpy as np

from .pictures import image, saved

# Sampling factors of the components, as (horizontal, vertical).
SAMPLINGS = {
    "444": ((1, 1), (1, 1), (1, 1)),
    "422": ((2, 1), (1, 1), (1, 1)),
    "420": ((2, 2), (1, 1), (1, 1)),
    "440": ((1, 2), (1, 1), (1, 1)),
    "411": ((4, 1), (1, 1), (1, 1)),
    "410": ((4, 2), (1, 1), (1, 1)),
    "441": ((1, 4), (1, 1), (1, 1)),
    "444-twice": ((2, 1), (2, 1), (2, 1)),
    "422-uneven": ((2, 2), (2, 1), (1, 2)),
}


def segment(marker, data):
    """A marker and its contents."""
    return bytes([0xFF, marker]) + struct.pack(">H", len(data) + 2) + data


def segments(file):
    """The segments of a file before its first scan: markers and their contents."""
    at, out = 2, []
    while file[at + 1] != 0xDA:
        length = struct.unpack(">H", file[at + 2 : at + 4])[0]
        out.append((file[at + 1], file[at + 4 : at + 2 + length]))
        at += 2 + length
    return out


def codes(tables):
    """Code and length of each symbol, by the class and number of a Huffman table."""
    out, at = {}, 0
    while at < len(tables):
        key, counts = tables[at], tables[at + 1 : at + 17]
        symbols = tables[at + 17 : at + 17 + sum(counts)]
        code, place, table = 0, 0, {}
        for length, count in enumerate(counts, 1):
            for _ in range(count):
                table[symbols[place]] = (code, length)
                code, place = code + 1, place + 1
            code <<= 1
        out[key] = table
        at += 17 + sum(counts)
    return out


class Bits:
    """Bits of a scan, the highest first; a byte of ones is followed by an empty one."""

    def __init__(self):
        self.out, self.held, self.length = bytearray(), 0, 0

    def put(self, value, length):
        """Append the lowest bits of a value."""
        self.held, self.length = self.held << length | value, self.length + length
        while self.length >= 8:
            self.length -= 8
            byte = self.held >> self.length & 255
            self.out += b"\xff\0" if byte == 255 else bytes([byte])
        self.held &= (1 << self.length) - 1

    def flush(self):
        """Fill the last byte with ones."""
        if self.length:
            self.put((1 << 8 - self.length) - 1, 8 - self.length)


def magnitude(value):
    """The number of bits of a value, and those bits."""
    size = abs(value).bit_length()
    return size, value if value >= 0 else value + (1 << size) - 1


def put_block(bits, block, before, dc, ac):
    """Append the codes of a block, whose level follows that of the block before."""
    size, value = magnitude(block[0] - before)
    bits.put(*dc[size])
    bits.put(value, size)
    zeros = 0
    for coefficient in block[1:]:
        if coefficient == 0:
            zeros += 1
            continue
        while zeros > 15:
            bits.put(*ac[0xF0])
            zeros -= 16
        size, value = magnitude(coefficient)
        bits.put(*ac[zeros << 4 | size])
        bits.put(value, size)
        zeros = 0
    if zeros:
        bits.put(*ac[0])


def random_block(rng, level):
    """Coefficients in zigzag order: a level, a few low frequencies, and rarely a high one."""
    block = [0] * 64
    block[0] = int(np.clip(level + rng.integers(-20, 21), -250, 250))
    for place in rng.integers(1, 12, 4):
        block[place] = int(rng.integers(-12, 13))
    if rng.random() < 0.2:
        block[int(rng.integers(40, 64))] = int(rng.integers(-3, 4))
    return block


def scan(rng, factors, width, height, dc, ac, restart):
    """The entropy-coded data of one scan of all components."""
    largest = [max(factor[axis] for factor in factors) for axis in (0, 1)]
    columns, rows = -(-width // (8 * largest[0])), -(-height // (8 * largest[1]))
    levels = [int(rng.integers(-40, 41)) for _ in factors]
    single = len(factors) == 1
    if single:
        columns, rows = -(-width // 8), -(-height // 8)
    bits, before = Bits(), [0] * len(factors)
    for unit in range(columns * rows):
        if restart and unit and unit % restart == 0:
            bits.flush()
            bits.out += bytes([0xFF, 0xD0 + (unit // restart - 1) % 8])
            before = [0] * len(factors)
        for component, (horizontal, vertical) in enumerate(factors):
            for _ in range(1 if single else horizontal * vertical):
                block = random_block(rng, levels[component])
                put_block(bits, block, before[component], dc, ac)
                before[component] = block[0]
    bits.flush()
    return bytes(bits.out)


def encoded(rng, width, height, factors, *, markers=b"", ids=None, restart=0, kind=0xC0):
    """A JPEG file of random coefficients."""
    tables = segments(saved(image(rng, 8, 8), "JPEG", quality=int(rng.integers(60, 96)), subsampling=0))
    huffman = b"".join(data for marker, data in tables if marker == 0xC4)
    quantization = b"".join(data for marker, data in tables if marker == 0xDB)
    by_key = codes(huffman)
    ids = ids or range(1, len(factors) + 1)
    frame = struct.pack(">BHHB", 8, height, width, len(factors))
    for identifier, (horizontal, vertical) in zip(ids, factors):
        frame += bytes([identifier, horizontal << 4 | vertical, 0])
    start = bytes([len(factors)]) + b"".join(bytes([identifier, 0]) for identifier in ids) + b"\0\x3f\0"
    out = b"\xff\xd8" + markers + segment(0xDB, quantization) + segment(kind, frame) + segment(0xC4, huffman)
    if restart:
        out += segment(0xDD, struct.pack(">H", restart))
    data = scan(rng, factors, width, height, by_key[0x00], by_key[0x10], restart)
    return out + segment(0xDA, start) + data + b"\xff\xd9"


def adobe(transform):
    """The marker of Adobe, which says how colours are transformed."""
    return segment(0xEE, b"Adobe" + struct.pack(">HHHB", 100, 0, 0, transform))


JFIF = segment(0xE0, b"JFIF\0\x01\x01\0\0\x01\0\x01\0\0")
# The orientation says that the image is to be turned, which is not done.
ORIENTATION = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"


def files(rng, width, height):
    """Yield names and files of all variants."""
    for quality in (5, 50, 90, 100):
        for subsampling in (0, 1, 2):
            for progressive in (False, True):
                options = {"quality": quality, "subsampling": subsampling, "progressive": progressive}
                kind = "progressive" if progressive else "baseline"
                file = saved(image(rng, width, height), "JPEG", optimize=bool(rng.integers(2)), **options)
                yield f"{kind}-quality{quality}-subsampling{subsampling}", file
    for progressive in (False, True):
        kind = "progressive" if progressive else "baseline"
        quality = int(rng.integers(20, 96))
        for mode in ("L", "CMYK"):
            yield (
                f"{kind}-{mode}",
                saved(image(rng, width, height, mode), "JPEG", quality=quality, progressive=progressive),
            )
        yield f"{kind}-rgb", saved(image(rng, width, height), "JPEG", keep_rgb=True, progressive=progressive)
        restarts = {"restart_marker_blocks": int(rng.integers(1, 5))}
        yield f"{kind}-restarts", saved(image(rng, width, height), "JPEG", progressive=progressive, **restarts)
        restarts = {"restart_marker_rows": 1}
        yield f"{kind}-restart-rows", saved(image(rng, width, height), "JPEG", progressive=progressive, **restarts)

    metadata = {"exif": ORIENTATION, "icc_profile": rng.bytes(200), "comment": b"a comment"}
    yield "metadata", saved(image(rng, width, height), "JPEG", **metadata)
    file = saved(image(rng, width, height), "JPEG")
    yield "garbage-after", file + rng.bytes(60)
    yield "padded-markers", file[:2] + b"\xff\xff\xff" + file[2:]
    # A progressive file whose last scans are missing: libjpeg smooths it.
    file = saved(image(rng, width, height), "JPEG", progressive=True)
    scans = [at for at in range(len(file) - 1) if file[at : at + 2] == b"\xff\xda"]
    for kept in (1, 2, len(scans) // 2):
        yield f"progressive-scans{kept}", file[: scans[kept]] + b"\xff\xd9"

    for name, factors in SAMPLINGS.items():
        yield f"sampling-{name}", encoded(rng, width, height, factors, markers=JFIF)
        restart = int(rng.integers(1, 4))
        yield (
            f"sampling-{name}-restarts",
            encoded(rng, width, height, factors, markers=JFIF, restart=restart, kind=0xC1),
        )
    three, four = ((1, 1),) * 3, ((1, 1),) * 4
    yield "grey-sampled", encoded(rng, width, height, ((2, 2),))
    yield "adobe-rgb", encoded(rng, width, height, three, markers=adobe(0))
    yield "adobe-ycc", encoded(rng, width, height, three, markers=adobe(1))
    yield "jfif-and-adobe-rgb", encoded(rng, width, height, three, markers=JFIF + adobe(0))
    yield "ids-rgb", encoded(rng, width, height, three, ids=b"RGB")
    yield "ids-odd", encoded(rng, width, height, three, ids=(7, 0, 200))
    yield "cmyk", encoded(rng, width, height, four)
    yield "adobe-cmyk", encoded(rng, width, height, four, markers=adobe(0))
    yield "adobe-ycck", encoded(rng, width, height, four, markers=adobe(2))
    sampled = ((2, 2), (1, 1), (1, 1), (2, 2))
    for name in ("422", "420", "440", "411", "441"):
        factors = SAMPLINGS[name]
        yield f"cmyk-{name}", encoded(rng, width, height, (*factors, factors[0]), markers=adobe(0))
    yield "adobe-ycck-420", encoded(rng, width, height, sampled, markers=adobe(2))
