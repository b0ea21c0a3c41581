"""What the tests of engines share: arms in Parquet files, and the sums of one process over the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

import modelmix as mm

Rows = npt.NDArray[np.float32]

WIDTH = 6
#: Few enough for seconds, and more than the sample.
COUNT, SAMPLE = 900, 200


def arms() -> dict[str, Rows]:
    """Three models, each of which covers a part of the data."""
    random = np.random.default_rng(11)
    centres = {"left": -2.0, "middle": 0.0, "right": 2.0}
    return {
        name: (random.normal(size=(COUNT, WIDTH)) + [centre, *[0] * (WIDTH - 1)]).astype(np.float32)
        for name, centre in centres.items()
    }


def reference() -> Rows:
    random = np.random.default_rng(12)
    return (2.0 * random.normal(size=(500, WIDTH))).astype(np.float32)


def fixed(rows: Rows) -> pa.Array:
    """Rows as a column of lists of a fixed size."""
    return pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])


def table(arms: dict[str, Rows], seed: int = 0) -> pa.Table:
    """The rows of all arms, shuffled, with the column of arms."""
    rows = np.concatenate(list(arms.values()))
    names = np.repeat(list(arms), [len(one) for one in arms.values()])
    order = np.random.default_rng(seed).permutation(len(rows))
    reward = rows[:, 0].astype(np.float64) ** 2
    return pa.table({"features": fixed(rows[order]), "arm": names[order], "reward": reward[order]})


def written(folder: Path, files: int = 4, groups: int = 3) -> list[str]:
    """The table as Parquet files with several row groups."""
    whole, paths = table(arms()), []
    size = -(-whole.num_rows // files)
    for at in range(files):
        path = folder / f"part-{at}.parquet"
        pq.write_table(whole.slice(at * size, size), path, row_group_size=-(-size // groups))
        paths.append(str(path))
    return paths


def alone(
    objective: Any, with_reference: bool = False, scores: tuple[str, ...] = (), **settings: Any
) -> mm.Accumulator:
    """The sums of one process, without a cluster."""

    def added(sums: mm.Accumulator) -> mm.Accumulator:
        for name, rows in arms().items():
            sums.update(name, rows, {"reward": rows[:, 0].astype(np.float64) ** 2} if scores else None)
        if with_reference:
            sums.update_reference(reference())
        return sums

    survey = added(mm.Accumulator.survey(sample=SAMPLE, scores=scores))
    whole = reference() if "precision" in str(objective) else None
    plan = survey.plan(objective, reference=whole, **settings)
    return added(mm.Accumulator(plan, whole)) if plan.needs_second_pass else survey.with_plan(plan, whole)


def damaged(path: str, group: int, row: int, width: int | None = None) -> None:
    """Write NaN into a row of a row group, or give all its rows another width."""
    file = pq.ParquetFile(path)
    groups = [file.read_row_group(at) for at in range(file.num_row_groups)]
    file.close()
    rows = np.stack(groups[group]["features"].to_pylist()).astype(np.float32)
    rows[row, 1] = np.nan
    lists = pa.array(
        np.ones((len(rows), width), dtype=np.float32).tolist() if width else rows.tolist(), pa.list_(pa.float32())
    )
    with pq.ParquetWriter(path, pa.schema([("features", pa.list_(pa.float32())), ("arm", pa.string())])) as writer:
        for at, one in enumerate(groups):
            column = lists if at == group else pa.array(one["features"].to_pylist(), pa.list_(pa.float32()))
            writer.write_table(pa.table({"features": column, "arm": one["arm"]}))
