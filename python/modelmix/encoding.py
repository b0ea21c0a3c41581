"""Encoding of images and texts: from files or memory to features."""

from __future__ import annotations

from os import PathLike

from ._arguments import checked
from ._samples import Samples
from .encoders._encoder import OnError
from .encoders._registry import EncoderGiven, RuntimeName, opened
from .results import Encoded

__all__ = ["encode"]


def __dir__() -> list[str]:
    return __all__


@checked
def encode(
    samples: Samples,
    encoder: EncoderGiven,
    *,
    preset: str | None = None,
    weights: str | PathLike[str] | None = None,
    runtime: RuntimeName = "rten",
    device: str = "cpu",
    on_error: OnError = "refuse",
    cache: bool | str | PathLike[str] = True,
    threads: int | None = None,
    progress: bool = False,
) -> Encoded:
    """Encode images or texts: decode, preprocess as the tools do that you compare with, and run the encoder.

    Parameters
    ----------
    samples
        - A path: a folder of images (searched with all folders in it), a ``.zip`` of images, an ``.npy`` or ``.npz`` file of 8-bit images;
          a ``.txt`` file of texts (one per line), a ``.jsonl`` or ``.json`` file, or a column of a ``.csv`` or ``.parquet`` file, written
          ``path:column``.
        - Images in memory: an array of 8-bit integers (n × height × width × 3, n × 3 × height × width, or n × height × width for grey
          images) of NumPy or torch, also on a GPU.
        - A list, a generator or a dataset of images (paths, images of Pillow, arrays, bytes of image files) or of texts. Samples may
          come with labels, as ``(image, label)``, and in batches, as from a data loader. They are consumed with bounded memory.
    encoder
        The name of an encoder, as in :func:`modelmix.encoders.list`; the path of an ``.onnx`` file; an encoder from
        :func:`modelmix.encoders.open`; or a function from a list of images (arrays of height × width × 3) or of texts to one row per
        sample.
    preset, weights, runtime, device
        How the encoder is opened, as in :func:`modelmix.encoders.open`.
    on_error
        What to do with samples that cannot be read: ``"refuse"`` raises the problem of the first, ``"skip"`` leaves them out with a
        warning, and lists them in ``Encoded.skipped``.
    cache
        Whether features are read from and written to the cache in the user's cache folder; or the folder of the cache. Samples are
        known by their content. Features of functions, and of a ``torch.nn.Module`` of your own, are not cached.
    threads
        The number of threads; all cores if ``None``.
    progress
        Whether to show a progress bar (needs tqdm).

    Returns
    -------
    Encoded
        The features, with the ids of the samples: use it wherever features are accepted.

    Raises
    ------
    TypeError
        If an argument or a sample has the wrong type.
    ValueError
        If there is no such encoder, its weights are not on this machine, or a sample cannot be read or decoded.
    OSError
        If a file cannot be read.

    Examples
    --------
    >>> import modelmix as mm
    >>> encoder = mm.encoders.open("data/fashion/models/encoder.onnx")
    >>> reference = mm.encode("data/fashion/images/reference.npz", encoder, cache=False)
    >>> vae = mm.encode("data/fashion/images/specialists.npz:vae", encoder, cache=False)
    >>> bool(mm.metrics.kid(vae, reference).value > 0)
    True

    A function of your own:

    >>> lengths = mm.encode(["a", "bcd"], lambda texts: [[float(len(text))] for text in texts])
    >>> lengths.features.tolist()
    [[1.0], [3.0]]
    """
    with_settings = opened(encoder, preset, weights, runtime, device)
    return with_settings.encode(samples, on_error=on_error, cache=cache, threads=threads, progress=progress)
