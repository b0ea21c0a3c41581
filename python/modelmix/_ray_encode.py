"""Encoders on a Ray cluster: a pool of actors, each of which opens the encoder once."""

from __future__ import annotations

import os
from os import PathLike
from typing import Any

from . import _check, _modelmix
from ._arguments import checked
from ._cluster import imported, told
from ._files import is_path
from ._ray_tasks import PACKAGE, is_dataset
from ._samples import file_id
from .encoders._encoder import OnError
from .encoders._registry import EncoderGiven, RuntimeName


@checked
def encode(
    samples: Any,
    encoder: EncoderGiven,
    *,
    preset: str | None = None,
    weights: str | PathLike[str] | None = None,
    runtime: RuntimeName = "rten",
    device: str = "cpu",
    on_error: OnError = "refuse",
    cache: bool | str | PathLike[str] = False,
    batch_size: int = 256,
    concurrency: int | None = None,
    num_cpus: float = 1,
    num_gpus: float = 0,
) -> Any:
    """Encode images or texts with a pool of actors, each of which opens the encoder once.

    The Dataset is lazy: write it to Parquet, or call its ``materialize``, before it is used twice, as by :func:`solve`.

    Parameters
    ----------
    samples
        A folder of images or a list of image files, which every worker can read; a file of texts; or a Ray Dataset with a column
        ``path``, ``image`` (the bytes of image files) or ``text``.
    encoder
        A name, an ``.onnx`` file or a function, as in :func:`modelmix.encode`.
    preset, weights, runtime, device, on_error, cache
        As in :func:`modelmix.encode`.
    batch_size
        The number of samples that an actor encodes at once.
    concurrency
        The number of actors; as many as the cluster has room for if ``None``.
    num_cpus, num_gpus
        What Ray reserves per actor. An actor uses one thread per CPU.

    Returns
    -------
    ray.data.Dataset
        A row per sample: its id, its path or text, and its features.

    Raises
    ------
    ImportError
        If Ray is not installed.
    TypeError
        If an argument has the wrong type.
    ValueError
        If there are no samples.
    """
    ray, data = imported("ray", PACKAGE), imported("ray.data", PACKAGE)
    size, most = _check.whole("batch_size", batch_size, 1), _check.whole_or_none("concurrency", concurrency, 1)
    if not is_dataset(samples):
        tables = sample_tables(samples, size)
        samples = data.from_arrow(tables)
    if most is None:
        there = ray.cluster_resources()
        limits = [there.get("CPU", 1) // num_cpus] if num_cpus else []
        limits += [there.get("GPU", 0) // num_gpus] if num_gpus else []
        most = max(1, int(min(limits, default=1)))
    threads = max(1, int(num_cpus))
    return samples.map_batches(
        Encoding,
        fn_constructor_args=(
            encoder,
            {"preset": preset, "weights": weights, "runtime": runtime, "device": device},
            {"on_error": on_error, "cache": cache, "threads": threads},
        ),
        batch_size=size,
        batch_format="pyarrow",
        concurrency=(1, most) if concurrency is None else most,
        num_cpus=num_cpus,
        **({"num_gpus": num_gpus} if num_gpus else {}),
    )


class Encoding:
    """An actor that opens an encoder once and encodes blocks of paths, images or texts."""

    def __init__(self, encoder: Any, opening: dict[str, Any], settings: dict[str, Any]) -> None:
        from .encoders._registry import opened

        self._encoder, self._settings = opened(encoder, **opening), settings
        #: Errors are told as those of functions are.
        self._told = told(self._encoded)

    def __call__(self, table: Any) -> Any:
        """Return the table with a column of features."""
        return self._told(table)

    def _encoded(self, table: Any) -> Any:
        pa = imported("pyarrow", PACKAGE)
        kind = kind_of(table.schema.names)
        samples = table.column(kind).to_pylist()
        encoded = self._encoder.encode(samples, **self._settings)
        if encoded.skipped:
            left = {one.id for one in encoded.skipped}
            names = [
                file_id(one) if isinstance(one, str) and kind == "path" else str(at) for at, one in enumerate(samples)
            ]
            table = table.filter(pa.array([name not in left for name in names]))
        rows = encoded.features
        values = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
        return table.drop_columns([kind] if kind == "image" else []).append_column("features", values)


def kind_of(names: list[str]) -> str:
    """Return the column that has the samples."""
    for name in ("path", "image", "text"):
        if name in names:
            return name
    raise ValueError(f"the dataset has the columns {', '.join(names)}, but samples are in a column path, image or text")


def sample_tables(source: Any, size: int) -> list[Any]:
    """Return the paths or texts of a source in tables of this number of rows, with their ids."""
    pa = imported("pyarrow", PACKAGE)
    given = (
        [source]
        if is_path(source)
        else _check.items("samples", source, "a folder, a file of texts, or a list of files")
    )
    columns: dict[str, list[str]] = {"id": []}
    for one in given:
        path = _check.file("samples", one)
        if _modelmix.sample_kind(path, True) is None:  # one image
            columns["id"].append(path)
            columns.setdefault("path", []).append(os.path.abspath(path))
            continue
        for _, samples in _modelmix.Samples.open(path):
            every = list(range(len(samples)))
            columns["id"] += samples.ids(every)
            if samples.kind == "texts":
                columns.setdefault("text", []).extend(samples.texts(0, len(samples)))
                continue
            files = [os.path.abspath(file) for file in samples.files(every) if file is not None]
            if len(files) < len(every):
                raise ValueError(f"{path} has images that are not files of their own; unpack them into a folder")
            columns.setdefault("path", []).extend(files)
    if len(columns) != 2:
        raise ValueError(
            "there are both images and texts; encode them separately" if columns["id"] else "there are no samples"
        )
    table = pa.table(columns)
    return [table.slice(first, size) for first in range(0, table.num_rows, size)]
