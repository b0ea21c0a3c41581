"""Optional progress bars, drawn by tqdm."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from . import _check


class Bar:
    """A progress bar that the extension starts and updates; inactive if ``wanted`` is false."""

    def __init__(self, wanted: bool, what: str, unit: str, scaled: bool = False) -> None:
        """``what`` is the label of the bar, ``unit`` the unit of its count."""
        self._what, self._unit, self._scaled = what, unit, scaled
        self._bar: Any = None
        self._tqdm: Any = None
        if _check.flag("progress", wanted):
            try:
                from tqdm.auto import tqdm
            except ImportError:
                raise ImportError("progress=True needs tqdm; install it with pip install tqdm") from None
            self._tqdm = tqdm

    def started(self, total: int | None) -> None:
        """Start the bar with the total number of units, if it is known."""
        if self._tqdm is not None:
            self._bar = self._tqdm(total=total, desc=self._what, unit=self._unit, unit_scale=self._scaled, leave=False)

    def done(self, count: int) -> None:
        """Set the number of units that are done."""
        if self._bar is not None:
            self._bar.update((count if self._bar.total is None else min(count, self._bar.total)) - self._bar.n)

    def __enter__(self) -> Bar:
        """Return the bar."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the bar and clear its line."""
        if self._bar is not None:
            self._bar.close()
