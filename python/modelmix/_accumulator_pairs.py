"""Blocks of rows, and sums over all pairs of rows of two of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import _check
from ._accumulator_bytes import StoredSums
from ._arguments import checked
from ._blocks import NamedRows
from ._files import Rows, recorded


@checked
class Block:
    """Rows that are paired as one unit, of any arms and of the reference, for :meth:`Accumulator.update_pairs`.

    Parameters
    ----------
    name
        Its name, which no other block has, and which is the same for every worker.
    arms
        Features by arm, one row per sample: arrays or files. 32-bit floats in C order are not copied.
    reference
        Rows of the reference.

    Raises
    ------
    TypeError
        If an argument has the wrong type.

    Examples
    --------
    >>> import modelmix as mm
    >>> mm.Block("part-0", {"flux": [[0.0, 1.0], [1.0, 2.0]]})
    Block('part-0': flux 2)
    """

    def __init__(self, name: str, arms: Mapping[str, Rows] | None = None, reference: Rows | None = None) -> None:
        self._name = _check.text("name", name)
        given = {} if arms is None else _check.mapping("arms", arms, 'rows by arm, such as {"flux": rows}')
        self._parts: list[tuple[str | None, Any]] = [
            (_check.arm_name(arm), recorded(f"block {self._name}, arm {arm}", rows)) for arm, rows in given.items()
        ]
        if reference is not None:
            self._parts.append((None, recorded(f"block {self._name}, the reference", reference)))

    @property
    def name(self) -> str:
        """Its name."""
        return self._name

    def __repr__(self) -> str:
        parts = [f"{'the reference' if arm is None else arm} {len(rows):,}" for arm, rows in self._parts]
        return f"Block({self._name!r}: {', '.join(parts) or 'no rows'})"


class PairSums(StoredSums):
    """Sums to which pairs of blocks are added."""

    @checked
    def update_pairs(self, first: Block, second: Block) -> None:
        """Add the pairs of rows of two blocks, or those within a block if it is given twice, for the method ``"pairs"``.

        Every block is paired once with itself and once with every other block, in any order and by any worker. Every row is
        also passed once to :meth:`Accumulator.update` or :meth:`Accumulator.update_reference`, which count it.

        Parameters
        ----------
        first, second
            The blocks.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If the plan has another method, the pair is included already, or a block has other rows than before; nothing is added then.

        Examples
        --------
        >>> import modelmix as mm
        >>> arms = mm.load("data/fashion/specialists.npz")
        >>> blocks = [mm.Block(name, {name: rows}) for name, rows in arms.items()]
        >>> survey = mm.Accumulator.survey()
        >>> for name, rows in arms.items():
        ...     survey.update(name, rows)
        >>> sums = mm.Accumulator(survey.plan(mm.Rke(bandwidth=20), method="pairs"))
        >>> for name, rows in arms.items():
        ...     sums.update(name, rows)
        >>> for at, first in enumerate(blocks):
        ...     for second in blocks[at:]:
        ...         sums.update_pairs(first, second)
        >>> sums.solve().approximation is None
        True
        """
        one, other = _named_rows("first", first), _named_rows("second", second)
        self._inner.update_pairs(one, None if first is second else other)

    @checked
    def has_pair(self, first: str, second: str) -> bool:
        """Whether the pairs of rows of two blocks are included.

        Parameters
        ----------
        first, second
            The names of the blocks.

        Returns
        -------
        bool
            Whether they are, in either order.

        Raises
        ------
        TypeError
            If an argument has the wrong type.

        Examples
        --------
        >>> import modelmix as mm
        >>> mm.Accumulator.survey().has_pair("part-0", "part-1")
        False
        """
        return self._inner.has_pair(_check.text("first", first), _check.text("second", second))


def _named_rows(name: str, block: object) -> NamedRows:
    if not isinstance(block, Block):
        raise _check.wrong_type(name, block, 'a block, such as mm.Block("part-0", {"flux": rows})')
    return block._name, block._parts
