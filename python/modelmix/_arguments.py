"""Errors for unknown arguments: they name the function that the user called and the nearest argument that exists."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from . import _modelmix

_T = TypeVar("_T", bound=Callable[..., Any])

#: Names that other libraries use for our arguments.
_ELSEWHERE = {
    "k": "neighbours",
    "length_scale": "bandwidth",
    "n_jobs": "threads",
    "n_samples": "count",
    "nearest_k": "neighbours",
    "num_samples": "count",
    "random_state": "seed",
    "real": "reference",
    "real_features": "reference",
    "sigma": "bandwidth",
}

#: What terms with a kernel are given, under our names and those of other libraries.
_KERNEL_SETTINGS = ("kernel", "bandwidth", "scale", "offset", "degree", "sigma", "length_scale")


def checked(target: _T) -> _T:
    """Decorate a function, or a class (its ``__init__``), so that the error for an unknown argument names it.

    >>> @checked
    ... def solve(arms, *, bandwidth=None): ...
    >>> solve({}, bandwith=3)
    Traceback (most recent call last):
    TypeError: solve has no argument bandwith (did you mean bandwidth?)
    >>> solve({}, 3)
    Traceback (most recent call last):
    TypeError: solve takes 1 argument by position, but 2 were given; name the others: bandwidth=…
    """
    if isinstance(target, type):
        made: Any = target
        made.__init__ = _wrapped(made.__init__)
        return target
    wrapped: Any = _wrapped(target)
    return wrapped  # type: ignore[no-any-return]


def _wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    parameters = list(inspect.signature(function).parameters.values())
    owner = bool(parameters) and parameters[0].name in ("self", "cls")
    parameters = parameters[1:] if owner else parameters
    by_position = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    endless = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    known, most = frozenset(names), math.inf if endless else len(by_position) + owner

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > most or not known.issuperset(kwargs):
            called = _called(function, args[0] if owner and args else None)
            unknown = [name for name in kwargs if name not in known]
            if unknown:
                raise TypeError(_unknown(called, unknown[0], names, kwargs[unknown[0]]))
            others = [name for name in names if name not in by_position and name not in kwargs]
            raise TypeError(_too_many(called, len(by_position), len(args) - owner, others))
        return function(*args, **kwargs)

    return call


def _called(function: Callable[..., Any], owner: object) -> str:
    """Return what the user wrote: the class for a constructor, otherwise the function."""
    if function.__name__ == "__init__":
        return type(owner).__name__
    if owner is not None:
        return f"{(owner if isinstance(owner, type) else type(owner)).__name__}.{function.__name__}"
    return function.__name__


def _unknown(called: str, name: str, names: Sequence[str], value: object) -> str:
    near = _ELSEWHERE.get(name)
    if called == "Kid" and name in _KERNEL_SETTINGS:
        instead = "Kid(reference)" if value == "kid" else f"Mmd(reference, {near or name}={value!r})"
        return f"Kid has no argument {name}: KID has one kernel, (x·y/d + 1)³, which has no bandwidth; write {instead}"
    near = near if near in names else _modelmix.nearest(name, list(names))
    if near:
        return f"{called} has no argument {name} (did you mean {near}?)"
    takes = f"it takes {', '.join(names)}" if names else "it takes no arguments"
    return f"{called} has no argument {name}; {takes}"


def _too_many(called: str, most: int, given: int, others: Sequence[str]) -> str:
    arguments = "no argument" if most == 0 else "1 argument" if most == 1 else f"{most} arguments"
    were = "1 was" if given == 1 else f"{given} were"
    remedy = f"; name the others: {', '.join(f'{name}=…' for name in others[:5])}" if others else ""
    return f"{called} takes {arguments} by position, but {were} given{remedy}"
