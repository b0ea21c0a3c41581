"""Accumulators and encoders on a Ray cluster. Ray is imported when a function is called.

>>> import modelmix as mm
>>> mm.ray.solve.__name__
'solve'
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ._accumulator_plan import MethodName
from ._arguments import checked
from ._cluster import Request, imported
from ._ray_encode import encode
from ._ray_tasks import PACKAGE, Cluster, collected, is_dataset
from .accumulation import Accumulator
from .results import Mixture

__all__ = ["accumulate", "encode", "solve"]


def __dir__() -> list[str]:
    return __all__


@checked
def solve(
    dataset: Any,
    objective: Any = None,
    *,
    features: str | None = None,
    arm: str | None = None,
    scores: Sequence[str] = (),
    reference: Any = None,
    costs: Mapping[str, float] | None = None,
    method: MethodName | None = None,
    random_features: int | None = None,
    error: float | None = None,
    sample: int = 2000,
    expected_rows: int | None = None,
    seed: int = 0,
    memory: int | str | None = None,
    floor: Mapping[str, float] | None = None,
    cap: Mapping[str, float] | None = None,
    intervals: bool = True,
    num_cpus: float = 1,
    num_gpus: float = 0,
    progress: bool = False,
) -> Mixture:
    """Find the best mixture of arms whose features are in a Ray Dataset or in files.

    The rows are read twice at most: a survey counts and samples them, and a second pass sums what the plan needs. Workers return sums,
    which tasks merge in a tree. The weights have the same bits for any number of workers, and if tasks are retried.

    Parameters
    ----------
    dataset
        - A Ray Dataset with a column that names the arm of each row.
        - A mapping from the name of an arm to a Ray Dataset, or to files.
        - Files (``.parquet``, ``.npy``, ``.npz``, ``.safetensors``): a path, a folder, a pattern or a list of them, each
          written ``[name=]path[:key]``. Every row group, or range of rows, is read by itself, on the workers.
    objective
        The objective to minimise, as in :func:`modelmix.solve`. If ``None``, ``mmd`` with a reference and ``rke`` without one.
    features
        The column of features, lists or tensors of floats of one length: if ``None``, ``"features"``, or the only such column of a file.
    arm
        The column that names the arm of each row: if ``None``, ``"arm"`` of a Dataset, and files are one arm each, as in
        :func:`modelmix.load`.
    scores
        Columns of numbers: the scores that the objective names.
    reference
        Features of real samples: a Ray Dataset, an array or a file, unless the terms of the objective contain it.
    costs
        The price per sample, by arm, unless the objective contains it.
    method, random_features, error
        What is done with the rows, as in :meth:`modelmix.Accumulator.plan`. ``"pairs"`` is exact: rows are cut into at most 64 blocks,
        or more of 64 MiB, which are in the object store, and every pair of blocks is a task. Then the bits are the same if the dataset has
        its rows in the same order each time.
    sample, expected_rows, seed
        The sample of the survey, as in :meth:`modelmix.Accumulator.survey`. If ``dataset`` maps arms to files, ``expected_rows`` is read from
        their headers.
    memory
        The largest size of an accumulator: bytes, or text such as ``"1GB"``.
    floor, cap, intervals
        As in :func:`modelmix.solve`.
    num_cpus, num_gpus
        What Ray reserves per task. A task uses one thread per CPU. Only tasks that sum pairs of blocks, with ``method="pairs"``, reserve
        and use GPUs.
    progress
        Whether to print the plan and to show a progress bar of merges (needs tqdm), besides Ray's own.

    Returns
    -------
    Mixture
        The weights; ``Mixture.approximation`` says what was sampled or random.

    Raises
    ------
    ImportError
        If Ray is not installed.
    TypeError
        If an argument has the wrong type.
    ValueError
        If rows cannot be summed; the message names their file, if the dataset has files or a column ``path``, and the row group if
        the driver can read that file from a disk.
    """
    given = dict(locals())
    limits = {name: given.pop(name) for name in ("floor", "cap", "intervals")}
    sums: Accumulator = accumulate(**given)
    return sums.solve(**limits)


@checked
def accumulate(
    dataset: Any,
    objective: Any = None,
    *,
    features: str | None = None,
    arm: str | None = None,
    scores: Sequence[str] = (),
    reference: Any = None,
    costs: Mapping[str, float] | None = None,
    method: MethodName | None = None,
    random_features: int | None = None,
    error: float | None = None,
    sample: int = 2000,
    expected_rows: int | None = None,
    seed: int = 0,
    memory: int | str | None = None,
    num_cpus: float = 1,
    num_gpus: float = 0,
    progress: bool = False,
) -> Accumulator:
    """Sum all rows of a Ray Dataset or of files, as :func:`solve` does; its result can be stored, merged and solved.

    Parameters, exceptions and inputs are those of :func:`solve`.
    """
    if num_gpus and method != "pairs":
        raise ValueError(
            f"num_gpus is {num_gpus}, but only sums over pairs use a GPU; leave it out, or give method='pairs'"
        )
    ray = imported("ray", PACKAGE)
    imported("ray.data", PACKAGE)
    request = Request(
        objective, features, arm, scores, reference, costs, method, random_features, error, sample, expected_rows,
        seed, memory, max(1, int(num_cpus)), "auto" if num_gpus == 0 else "cuda", progress,
    )  # fmt: skip
    cluster = Cluster(ray, request, {"num_cpus": num_cpus, **({"num_gpus": num_gpus} if num_gpus else {})})
    work = cluster.work(dataset)
    request.expect(work)
    return request.accumulate(
        lambda job, other: cluster.run(work, job, other),
        lambda given: collected(given, features or "features"),
        is_dataset,
    )
