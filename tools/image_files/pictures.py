"""Random pictures: smooth parts, noise and edges, so that every predictor and transform of a format has work."""

import io

import numpy as np
from PIL import Image


def picture(rng, width, height, channels=3):
    """Random 8-bit samples of shape [height, width, channels]."""
    y, x = np.mgrid[0:height, 0:width]
    planes = []
    for _ in range(channels):
        frequency, phase = rng.uniform(0, 0.6, 2), rng.uniform(0, 6.3)
        planes.append(127 + 110 * np.sin(frequency[0] * x + frequency[1] * y + phase))
    samples = np.stack(planes, axis=-1)
    samples += rng.normal(0, rng.choice([0.0, 4.0, 60.0]), samples.shape)
    if width > 2 and height > 2 and rng.random() < 0.5:
        left, top = rng.integers(width - 1), rng.integers(height - 1)
        samples[top:, left:] = rng.integers(0, 256, channels)
    return np.clip(np.rint(samples), 0, 255).astype(np.uint8)


def image(rng, width, height, mode="RGB"):
    """A random Pillow image of mode L, LA, RGB, RGBA or CMYK."""
    channels = {"L": 1, "LA": 2, "RGB": 3, "RGBA": 4, "CMYK": 4}[mode]
    samples = picture(rng, width, height, channels)
    return Image.fromarray(samples[:, :, 0], "L") if mode == "L" else Image.fromarray(samples, mode)


def saved(picture, file_format, **options):
    """The bytes of a Pillow image in a format."""
    buffer = io.BytesIO()
    picture.save(buffer, file_format, **options)
    return buffer.getvalue()
