"""WebP files: lossy and lossless ones by Pillow, and containers written chunk by chunk."""

import struct

from .pictures import image, saved


def chunk(kind, data):
    """A chunk with its length, padded to an even one."""
    return kind + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)


def container(*chunks):
    """A file of these chunks."""
    body = b"WEBP" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def u24(value):
    """Three bytes, the lowest first."""
    return struct.pack("<I", value)[:3]


def canvas(width, height, *, animated=False, alpha=False):
    """The chunk with the size of the canvas."""
    flags = (2 if animated else 0) | (16 if alpha else 0)
    return chunk(b"VP8X", struct.pack("<I", flags) + u24(width - 1) + u24(height - 1))


def inner(file):
    """The chunks of a file of one image, except the canvas and metadata."""
    at, out = 12, b""
    while at < len(file):
        length = struct.unpack("<I", file[at + 4 : at + 8])[0]
        end = at + 8 + length + length % 2
        if file[at : at + 4] in (b"VP8 ", b"VP8L", b"ALPH"):
            out += file[at:end]
        at = end
    return out


def frame(width, height, left, top, chunks, *, flags=0):
    """A frame of an animation at its place."""
    place = u24(left // 2) + u24(top // 2) + u24(width - 1) + u24(height - 1)
    return chunk(b"ANMF", place + u24(100) + bytes([flags]) + chunks)


def files(rng, width, height):
    """Yield names and files of all variants."""
    for mode in ("RGB", "RGBA"):
        for quality in (1, 40, 80, 100):
            method = int(rng.integers(0, 7))
            lossy = saved(image(rng, width, height, mode), "WEBP", quality=quality, method=method)
            yield f"lossy-{mode}-quality{quality}", lossy
        for method in (0, 3, 6):
            exact = bool(rng.integers(2))
            lossless = saved(image(rng, width, height, mode), "WEBP", lossless=True, method=method, exact=exact)
            yield f"lossless-{mode}-method{method}", lossless
    few = image(rng, width, height).quantize(int(rng.integers(2, 20))).convert("RGB")
    yield "lossless-palette", saved(few, "WEBP", lossless=True)
    yield "lossy-alpha-compressed", saved(image(rng, width, height, "RGBA"), "WEBP", alpha_quality=50)
    lossy = saved(image(rng, width, height), "WEBP")
    profile = {"icc_profile": rng.bytes(33), "exif": b"Exif\0\0" + bytes(20), "xmp": b"<x/>"}
    yield "metadata", saved(image(rng, width, height), "WEBP", **profile)
    yield "garbage-after", lossy + rng.bytes(31)

    frames = [image(rng, width, height, "RGBA") for _ in range(3)]
    for lossless in (False, True):
        animated = saved(frames[0], "WEBP", save_all=True, append_images=frames[1:], lossless=lossless)
        yield f"animated-{'lossless' if lossless else 'lossy'}", animated

    # A first frame that does not cover its canvas, with a background, with and without blending.
    background = chunk(b"ANIM", bytes([10, 200, 90, 255]) + b"\0\0")
    for mode, lossless in (("RGB", False), ("RGBA", False), ("RGBA", True)):
        part = inner(saved(image(rng, width, height, mode), "WEBP", lossless=lossless, exact=True))
        for flags in (0, 1, 2, 3):
            shown = frame(width, height, 4, 2, part, flags=flags)
            file = container(
                canvas(width + 7, height + 5, animated=True, alpha=mode == "RGBA"), background, shown, shown
            )
            yield f"animated-smaller-{mode}-{'lossless' if lossless else 'lossy'}-flags{flags}", file
    still = inner(saved(image(rng, width, height), "WEBP"))
    yield "canvas", container(canvas(width, height), chunk(b"JUNK", b"abc"), still)
