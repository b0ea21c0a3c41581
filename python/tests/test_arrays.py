"""Every supported array type, rejected inputs, and the absence of unnecessary copies."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import hypothesis.extra.numpy as arrays_of
import numpy as np
import numpy.typing as npt
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import modelmix as mm
from modelmix import _modelmix

Array = npt.NDArray[Any]


def solved(rows: Any, other: Any | None = None) -> mm.Mixture:
    return mm.solve({"one": rows, "two": rows if other is None else other}, mm.Rke(bandwidth=2.0))


@pytest.fixture
def rows() -> Array:
    """Multiples of one half, which are exact in every float type."""
    return (np.random.default_rng(3).integers(-8, 8, size=(30, 6)) / 2).astype(np.float32)


class WithArray:
    def __init__(self, array: Array) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        return self.array if dtype is None else self.array.astype(dtype)


class WithInterface:
    def __init__(self, array: Array) -> None:
        self.array = array
        self.__array_interface__ = array.__array_interface__


class WithDlpack:
    """An array that supports only DLPack."""

    def __init__(self, array: Array) -> None:
        self.array = array

    def __dlpack__(self, **settings: Any) -> Any:
        return self.array.__dlpack__(**settings)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class LikeTorch:
    """A tensor with a gradient and a device, which must be detached and copied to the CPU."""

    def __init__(self, array: Array, ready: bool = False) -> None:
        self.array, self.ready, self.dtype = array, ready, "torch.float32"

    def detach(self) -> LikeTorch:
        return LikeTorch(self.array, self.ready)

    def cpu(self) -> LikeTorch:
        return LikeTorch(self.array, True)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        assert self.ready, "read before it was detached and moved"
        return self.array


KINDS: dict[str, Any] = {
    "float16": lambda rows: rows.astype(np.float16),
    "float32": lambda rows: rows,
    "float64": lambda rows: rows.astype(np.float64),
    "fortran": np.asfortranarray,
    "strided": lambda rows: np.repeat(rows, 3, axis=1)[:, ::3],
    "reversed": lambda rows: np.ascontiguousarray(rows[::-1, ::-1])[::-1, ::-1],
    "big-endian": lambda rows: rows.astype(">f4"),
    "big-endian doubles": lambda rows: rows.astype(">f8"),
    "unaligned": lambda rows: np.frombuffer(b"\0" + rows.tobytes(), np.uint8)[1:].view(np.float32).reshape(rows.shape),
    "read-only": lambda rows: _frozen(rows),
    "subclass": lambda rows: np.matrix(rows),
    "masked, nothing hidden": np.ma.masked_array,
    "__array__": WithArray,
    "__array_interface__": WithInterface,
    "DLPack": WithDlpack,
    "like torch": LikeTorch,
    "pandas": pd.DataFrame,
    "pandas, doubles": lambda rows: pd.DataFrame(rows.astype(np.float64)),
    "pandas, mixed floats": lambda rows: pd.DataFrame(rows).astype({0: "float64", 1: "float16"}),
    "polars": lambda rows: pl.DataFrame(rows, schema=[f"c{at}" for at in range(rows.shape[1])]),
    "pandas, a column of rows": lambda rows: pd.Series(list(rows)),
    "polars, a column of rows": lambda rows: pl.Series(rows.tolist(), dtype=pl.List(pl.Float32)),
    "lists": lambda rows: rows.tolist(),
    "lists of whole numbers": lambda rows: [[int(value) if value == int(value) else value for value in row] for row in rows.tolist()],
    "list of rows": list,
    "list of tensors": lambda rows: [LikeTorch(row) for row in rows],
    "memory map": lambda rows: _mapped(rows),
}  # fmt: skip


def _frozen(rows: Array) -> Array:
    frozen = rows.copy()
    frozen.setflags(write=False)
    return frozen


def _mapped(rows: Array) -> Array:
    import tempfile

    path = Path(tempfile.mkdtemp()) / "rows.npy"
    np.save(path, rows)
    return np.asanyarray(np.load(path, mmap_mode="r"))


@pytest.mark.filterwarnings("ignore:the matrix subclass")
@pytest.mark.parametrize("kind", KINDS)
def test_every_array_type_gives_the_same_result(kind: str, rows: Array) -> None:
    expected = solved(rows, rows + 1)
    made = solved(KINDS[kind](rows), KINDS[kind](rows + 1))
    assert made.quadratic == expected.quadratic


@pytest.mark.parametrize(
    "kind", ["float32", "read-only", "__array__", "__array_interface__", "DLPack", "like torch", "memory map"]
)
def test_contiguous_floats_are_not_copied(kind: str, rows: Array) -> None:
    given = KINDS[kind](rows)
    before = _modelmix.copied_bytes()
    solved(given)
    mm.score({"one": given}, given, metrics=["precision", "fid"])
    mm.simulate({"one": given, "two": given}, mm.Mmd(given, bandwidth=2.0), rounds=5, seeds=1)
    mm.metrics.mmd(given, given, bandwidth=2.0)
    assert _modelmix.copied_bytes() == before


@pytest.mark.parametrize("kind", ["float16", "float64", "fortran", "strided"])
def test_other_floats_are_converted_once(kind: str, rows: Array) -> None:
    given = KINDS[kind](rows)
    before = _modelmix.copied_bytes()
    solved(given)
    assert _modelmix.copied_bytes() - before == 2 * 4 * rows.size  # both arms


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_memory_grows_only_if_a_copy_is_made(kind: str) -> None:
    """The same as measured by the operating system, with 256 MB of features."""
    script = f"""
import resource, numpy as np, modelmix as mm
from modelmix import _modelmix
rows = np.ones((1 << 18, 256), np.{kind}); rows[0] = 0
small = np.eye(2, 256, dtype=np.float32)
mm.metrics.fid(small, small)   # load all modules
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
session = mm.Session(["one"], mm.Rke(bandwidth=1.0), batch=1 << 18)
pull = session.ask()
try:
    session.tell(pull.id + 1, rows)
except ValueError as error:
    assert "never asked" in str(error), error
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    grown = int(done.stdout)
    assert grown < 20 if kind == "float32" else 230 < grown < 300, grown


def test_loaded_arrays_are_views_of_library_memory(specialists: dict[str, Array]) -> None:
    array = specialists["vae"]
    assert not array.flags.writeable and not array.flags.owndata
    assert isinstance(array.base, _modelmix.Memory)
    before = _modelmix.copied_bytes()
    session = mm.Session(["one"], mm.Mmd(array, bandwidth=20))  # used beyond the call, but read-only
    assert _modelmix.copied_bytes() == before
    assert session.report().samples == 0


def test_a_session_copies_its_reference(rows: Array) -> None:
    reference = rows.copy()
    session, untouched = (mm.Session(["a"], mm.Mmd(reference, bandwidth=2.0)) for _ in range(2))
    pull = untouched.ask()
    untouched.tell(pull, rows[:1])
    reference[:] = 99.0
    session.tell(session.ask(), rows[:1])
    assert session.report().loss == untouched.report().loss


REFUSED: dict[str, Any] = {
    'arm one: its values are bool, but features must be numbers; to use 0 and 1, convert them, as in x.astype("float32")':
        lambda rows: rows > 0,
    "arm one: its values are complex64": lambda rows: rows.astype(np.complex64),
    "arm one: its values are bool,": lambda rows: (rows > 0).tolist(),
    'arm one: row 1, column 0 is 16777217, which is not exact as a 32-bit float; to accept rounding, convert the features, as in x.astype("float32")':
        lambda rows: np.array([[1, 2], [(1 << 24) + 1, 4]]),
    "arm one: row 0, column 1 is -16777217,": lambda rows: [[1, -(1 << 24) - 1], [3, 4]],
    "arm one: row 0, column 0 is 9223372036854775807,": lambda rows: np.array([[(1 << 63) - 1], [0]]),
    "arm one: row 0, column 0 is 18446744073709551615,": lambda rows: np.array([[(1 << 64) - 1], [0]], np.uint64),
    "arm one: 2 of its 180 values are masked; drop the rows with masked values, as in x[~x.mask.any(axis=1)].data":
        lambda rows: np.ma.masked_array(rows, np.isin(np.arange(180).reshape(30, 6), [7, 50])),
    "arm one: 1 of its 6 values are masked": lambda rows: [np.ma.masked_array(rows[0], [False] * 5 + [True]), rows[1]],
    "arm one: some of its values are masked": lambda rows: [[1.0, np.ma.masked], [2.0, 3.0]],
    "arm one: its values are object": lambda rows: pd.DataFrame({"a": ["x", "y"], "b": [1.0, 2.0]}),
    "arm one: its shape is (30, 6, 1), but features must be two-dimensional": lambda rows: rows[..., None],
    "arm one: its shape is (30), but features must be two-dimensional": lambda rows: rows[:, 0],
    "arm one: there are no rows": lambda rows: rows[:0],
    "arm one: the rows have no columns": lambda rows: rows[:, :0],
    "arm one: there is 1 row": lambda rows: rows[:1],
    "arm one: row 4, column 2 is NaN": lambda rows: np.where(np.arange(180).reshape(30, 6) == 26, np.nan, rows),
    "arm one: row 0, column 0 is 1e300, but features must be finite 32-bit floats": lambda rows: np.full((3, 2), 1e300),
    "arm one is 7, but it must be rows of numbers": lambda rows: 7,
    "arm one is {'a': 1}, but it must be rows of numbers": lambda rows: {"a": 1},
    "arm one: its rows are not lists of numbers of the same length": lambda rows: [[1.0, 2.0], [3.0]],
    "arm one: its rows have different shapes": lambda rows: [rows[0], rows[1, :2]],
}  # fmt: skip


@pytest.mark.parametrize("sentence", REFUSED)
def test_rejected_arrays(sentence: str, rows: Array) -> None:
    with pytest.raises((TypeError, ValueError)) as raised:
        solved(REFUSED[sentence](rows), rows)
    assert sentence.lower() in str(raised.value).lower()


WHOLE = [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64, ">i4"]


@pytest.mark.parametrize("kind", WHOLE)
def test_integers_are_read_exactly(kind: Any, rows: Array) -> None:
    whole = np.abs(2 * rows)
    assert solved(whole.astype(kind), whole + 1).quadratic == solved(whole, whole + 1).quadratic
    assert solved(whole.astype(int).tolist(), whole + 1).quadratic == solved(whole, whole + 1).quadratic


@pytest.mark.parametrize("value", [1 << 24, -(1 << 24), (1 << 24) + 2, 1 << 40, -(1 << 63), 3 << 61])
def test_large_integers_are_read_if_exact(value: int) -> None:
    session = mm.Session(["one"], mm.Mmd([[0.0], [1.0]], bandwidth=1))
    session.tell(session.ask(), np.array([[value]], np.int64))
    assert session.samples is not None and int(session.samples[0, 0]) == value


def test_masked_scores_are_rejected(rows: Array) -> None:
    objective = mm.Rke(bandwidth=2.0) - 0.1 * mm.SampleScore("taste")
    hidden = np.ma.masked_array(np.arange(30.0), np.arange(30) == 3)
    shown = np.ma.masked_array(np.arange(30.0))
    with pytest.raises(ValueError, match="score taste of arm one: 1 of its 30 values are masked"):
        mm.solve({"one": rows}, objective, scores={"taste": {"one": hidden}})
    with pytest.raises(ValueError, match="score taste of arm one: some of its values are masked"):
        mm.solve({"one": rows}, objective, scores={"taste": {"one": [*np.arange(29.0), np.ma.masked]}})
    plain = mm.solve({"one": rows}, objective, scores={"taste": {"one": range(30)}})
    assert mm.solve({"one": rows}, objective, scores={"taste": {"one": shown}}) == plain
    session = mm.Session(["one"], objective)
    with pytest.raises(ValueError, match="score taste: .* masked"):
        session.tell(session.ask(), rows[0], scores={"taste": hidden[3]})
    with pytest.raises(ValueError, match="the reference: 1 of its 4 values are masked"):
        mm.solve({"one": rows}, mm.Mmd(np.ma.masked_array([[0.0, 1.0], [2.0, 3.0]], [[False, False], [True, False]])))


def test_arms_need_names(rows: Array) -> None:
    with pytest.raises(TypeError, match="but it must be features or files by name"):
        mm.solve([rows, rows])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="the name of an arm is 1, but it must be a single line of text"):
        mm.solve({1: rows})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="at least one arm"):
        mm.solve({})


def test_an_exception_of_the_users_array_passes_unchanged() -> None:
    class Broken:
        def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
            raise error

    error = LookupError("the disk is gone")
    with pytest.raises(LookupError) as raised:
        mm.solve({"one": Broken()})
    assert raised.value is error


finite = st.floats(-1e4, 1e4, width=16)
shapes = arrays_of.array_shapes(min_dims=2, max_dims=2, min_side=2, max_side=7)


@settings(max_examples=60, deadline=None)
@given(
    rows=arrays_of.arrays(np.float16, shapes, elements=finite),
    kind=st.sampled_from([np.float16, np.float32, np.float64]),
    order=st.sampled_from(["C", "F"]),
    step=st.sampled_from([1, 2, -1]),
)
def test_results_do_not_depend_on_the_layout(rows: Array, kind: Any, order: Any, step: int) -> None:
    plain = rows.astype(np.float32)[::step]
    laid = np.asarray(rows, dtype=kind, order=order)[::step]
    session = mm.Session(["one"], mm.Mmd([[0.0] * rows.shape[1]] * 2, bandwidth=1e4), batch=len(plain))
    session.tell(session.ask(), laid)
    held = session.samples
    assert held is not None
    assert np.array_equal(held, plain)
