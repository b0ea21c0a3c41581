"""Modules that are named in annotations and imported only when an annotation is evaluated."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class Lazy:
    """A placeholder for a module, so that ``typing.get_type_hints`` works without importing NumPy, pandas or matplotlib first.

    >>> Lazy("decimal").Decimal("1.5")
    Decimal('1.5')
    >>> Lazy("not_installed_here").Frame
    typing.Any
    """

    def __init__(self, module: str) -> None:
        """Store the name of the module."""
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            module = import_module(self._module)
        except ImportError:  # an optional dependency: its types are unknown
            return Any
        return getattr(module, name)
