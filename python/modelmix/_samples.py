"""Samples in memory: images and texts in any of the forms that users have, as sets that the extension encodes.

Iterables are consumed in chunks of bounded size, so that a generator of a million images needs the memory of a few.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from . import _check, _modelmix
from ._arrays import ArrayLike
from ._lazy import Lazy

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
else:
    np, npt = Lazy("numpy"), Lazy("numpy.typing")

#: What encoders take.
Kind: TypeAlias = Literal["images", "texts"]

#: Samples: a folder or a file; images as an array, or images and texts one by one.
Samples: TypeAlias = str | PathLike[str] | ArrayLike | Iterable[Any]

#: The size of a chunk in bytes: enough images to keep all cores busy, and far less than a machine has.
_CHUNK = 64 << 20

#: What a path counts in a chunk.
_PATH = 1 << 10

#: Words in the names of numeric types.
_NUMBERS = ("int", "float", "bool", "complex", "half", "double")

#: Where samples of memory come from, for messages.
_ORIGINS = {"images": "the images", "texts": "the texts"}


@dataclass
class Chunk:
    """Consecutive samples of a set."""

    #: The position of the first sample.
    start: int
    #: The samples; ``None`` if none of the chunk can be read.
    samples: _modelmix.Samples | None
    #: Samples that cannot be read: id and problem.
    failed: list[tuple[str, str]]
    #: The number of samples, with those that cannot be read.
    count: int


@dataclass
class _Collected:
    """A chunk that is being filled."""

    start: int
    items: list[tuple[str, Any]] = field(default_factory=list)
    failed: list[tuple[str, str]] = field(default_factory=list)
    size: int = 0

    def chunk(self, kind: Kind) -> Chunk:
        samples = None
        if self.items:
            samples = (
                _modelmix.Samples.of_images(_ORIGINS[kind], self.items)
                if kind == "images"
                else _modelmix.Samples.of_texts(_ORIGINS[kind], [text for _, text in self.items])
            )
        return Chunk(self.start, samples, self.failed, len(self.items) + len(self.failed))


def total(samples: Any, kind: Kind) -> int | None:
    """Return the number of samples, if it is known before they are read."""
    shape = getattr(samples, "shape", None)
    if shape is not None and len(shape) in (3, 4):
        return int(shape[0])
    # The items of a data loader are batches, and those of a list may be.
    if not isinstance(samples, Sized) or hasattr(samples, "batch_size"):
        return None
    if isinstance(samples, (list, tuple)) and samples and len(list(_single(samples[0], kind, 0))) != 1:
        return None
    return len(samples)


def chunks(samples: Any, kind: Kind) -> Iterator[Chunk]:
    """Yield the samples of memory in chunks.

    Parameters
    ----------
    samples
        Images as an array, or an iterable or a dataset of images or texts.
    kind
        What the encoder takes.
    """
    collected = _Collected(0)
    position = 0
    for item in _items(samples, kind):
        for one in _single(item, kind, position):
            converted, problem, size = _converted(one, kind, position)
            name = file_id(converted) if isinstance(converted, str) and kind == "images" else str(position)
            if problem is None:
                collected.items.append((name, converted))
            else:
                collected.failed.append((name, problem))
            collected.size += size
            position += 1
        if collected.size >= _CHUNK:
            yield collected.chunk(kind)
            collected = _Collected(position)
    if position == 0:
        raise ValueError(f"there are no {kind} to encode; pass at least one")
    if collected.items or collected.failed:
        yield collected.chunk(kind)


def file_id(path: str) -> str:
    """Return a path as an id; bytes that are not UTF-8 are escaped."""
    return path.encode("utf-8", "backslashreplace").decode()


def _items(samples: Any, kind: Kind) -> Iterator[Any]:
    """Yield the items of an array, an iterable or a dataset."""
    must = f"a path, an array, or a list of {kind}"
    if isinstance(samples, (bytes, bytearray, Mapping)) or _is_pillow(samples):
        raise _check.wrong_type("samples", samples, must)
    if is_array(samples):
        yield from _images_of(samples)
    elif isinstance(samples, Iterable):
        yield from samples
    elif hasattr(samples, "__getitem__") and isinstance(samples, Sized):  # a dataset of torch, which may have no end
        dataset: Any = samples
        yield from (dataset[at] for at in range(len(dataset)))
    else:
        raise _check.wrong_type("samples", samples, must)


def is_array(value: Any) -> bool:
    """Whether a value is an array or a tensor of numbers; a column of texts or of images is none."""
    kind = str(getattr(value, "dtype", ""))
    return hasattr(value, "shape") and any(word in kind for word in _NUMBERS)


def _images_of(array: Any) -> Iterator[Any]:
    """Yield the images of a batch, without moving the whole batch of a GPU."""
    shape = tuple(int(side) for side in array.shape)
    if len(shape) == 3 and shape[-1] in (3, 4):
        raise ValueError(
            f"samples has the shape {shape}, which is one image; pass a list of images, as in [image], "
            "or an array of n × height × width × 3"
        )
    if len(shape) not in (3, 4):
        raise ValueError(
            f"samples has the shape {shape}, but images are n × height × width × 3, n × 3 × height × width, "
            "or n × height × width for grey ones; features need no encoder"
        )
    yield from (array[at] for at in range(shape[0]))


def _single(item: Any, kind: Kind, position: int, is_nested: bool = False) -> Iterator[Any]:
    """Yield the samples of an item of a dataset: the item itself, the first of a sample with labels, or all of a batch."""
    if isinstance(item, Mapping):
        yield from _single(_field(item, kind, position), kind, position, is_nested=True)
    elif isinstance(item, (tuple, list)):
        if not item:
            raise ValueError(f"sample {position} is empty; pass a list of {kind}")
        # Lists are batches, tuples samples with their labels; in a batch of samples with labels, both are batches.
        if all(map(_is_sample, item)) and (is_nested or isinstance(item, list)):
            yield from item
        else:
            yield from _single(item[0], kind, position, is_nested=True)
    elif is_array(item) and len(item.shape) == 4:
        yield from _images_of(item)
    else:
        yield item


def _field(item: Mapping[Any, Any], kind: Kind, position: int) -> Any:
    """Return the sample in a row of a dataset of Hugging Face. An image that is not decoded has bytes or a path."""
    for name in ("image", "bytes", "path") if kind == "images" else ("text",):
        if item.get(name) is not None:
            return item[name]
    names = ", ".join(map(str, list(item)[:8]))
    column = next(iter(item), "image")
    raise ValueError(f'sample {position} has the fields {names}; pass the column of {kind}, as in dataset["{column}"]')


def _is_sample(value: Any) -> bool:
    """Whether a value looks like one text or one image, as opposed to a label or a batch."""
    if isinstance(value, (str, PathLike, bytes)) or _is_pillow(value):
        return True
    return is_array(value) and len(value.shape) in (2, 3)


def _is_pillow(value: Any) -> bool:
    return hasattr(value, "convert") and hasattr(value, "getbands")


def _converted(item: Any, kind: Kind, position: int) -> tuple[Any, str | None, int]:
    """Return a sample in the form that the extension takes, or what is wrong with it, and its size."""
    if kind == "texts":
        if not isinstance(item, str):
            raise TypeError(f"sample {position} is {_check.shown(item)}, but the encoder takes texts")
        return str(item), None, len(item)
    if isinstance(item, (str, PathLike)):
        return _check.file(f"sample {position}", fspath(item)), None, _PATH
    if isinstance(item, (bytes, bytearray, memoryview)):
        data = bytes(item)
        return data, None, len(data)
    if _is_pillow(item):  # it may be decoded only now
        try:
            item = item.convert("RGB")
        except Exception as problem:
            return None, f"Pillow cannot decode it ({type(problem).__name__}: {problem})", 0
        import numpy

        pixels = numpy.ascontiguousarray(numpy.asarray(item))
        return pixels, None, pixels.nbytes
    if not is_array(item):
        raise TypeError(
            f"sample {position} is {_check.shown(item)}, but images are paths, arrays of 8-bit integers, "
            "or images of Pillow; wrap it, or convert it with numpy.asarray"
        )
    pixels = pixels_of(item, f"sample {position}")
    return pixels, None, pixels.nbytes


def pixels_of(image: Any, origin: str) -> npt.NDArray[np.uint8]:
    """Return the pixels of one image as height × width × channels, contiguous."""
    import numpy

    if hasattr(image, "detach") and hasattr(image, "cpu"):  # torch
        image = image.detach().cpu()
    array = numpy.asarray(image) if hasattr(image, "__array__") else numpy.from_dlpack(image)
    if array.dtype != numpy.uint8:
        remedy = (
            'multiply by 255 and convert to uint8, as the tools do: (255 * x).round().astype("uint8")'
            if array.dtype.kind == "f"
            else 'convert values in 0–255 with x.astype("uint8")'
        )
        raise TypeError(f"{origin} is an array of {array.dtype}, but pixels are 8-bit integers; {remedy}")
    if array.ndim == 2:
        array = array[:, :, None]
    elif array.ndim == 3 and array.shape[-1] not in (1, 3, 4) and array.shape[0] in (1, 3):
        array = numpy.moveaxis(array, 0, -1)
    if array.ndim != 3 or array.shape[-1] not in (1, 3, 4) or 0 in array.shape:
        raise ValueError(
            f"{origin} has the shape {array.shape}, but an image is height × width × 3, 3 × height × width, "
            "or height × width if it is grey"
        )
    return numpy.ascontiguousarray(array)
