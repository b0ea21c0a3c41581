"""Image files of every kind that modelmix decodes, made by Pillow or byte by byte, to compare decoders with.

Every module has a function `files(rng, width, height)`, which yields names of variants and the bytes of a file each.
"""

from . import bmp, gif, jpeg, png, webp

FORMATS = {"png": png.files, "jpg": jpeg.files, "webp": webp.files, "gif": gif.files, "bmp": bmp.files}

__all__ = ["FORMATS"]
