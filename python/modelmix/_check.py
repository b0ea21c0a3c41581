"""Validation of arguments (types, ranges and names) before they reach the extension.

A wrong type raises ``TypeError``, a wrong value ``ValueError``. The message is one sentence: the name of the argument as the user
wrote it, the value found, and what it must be.
"""

from __future__ import annotations

import math
import operator
import reprlib
import sys
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from numbers import Number
from os import PathLike, fspath
from typing import Any

from . import _modelmix

#: The largest count: the size of the address space on this machine.
MOST = sys.maxsize

#: The largest 64-bit seed.
MOST_SEED = 2**64 - 1

#: The largest seed of generators with 32-bit seeds.
MOST_SHORT_SEED = 2**32 - 1

#: The largest number of threads: more than any machine has. A session starts its threads one by one.
MOST_THREADS = 65_536

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 60


def shown(value: object) -> str:
    """Return the repr of a value, shortened and on one line.

    >>> shown([1, 2])
    '[1, 2]'
    >>> shown(10**5000)
    'a number of 16610 bits'
    """
    try:
        return " ".join(_short.repr(value).split())
    except ValueError:  # Python does not print integers of more than 4300 digits
        return f"a number of {value.bit_length()} bits" if isinstance(value, int) else f"a {type(value).__name__}"


def wrong_type(name: str, value: object, must: str) -> TypeError:
    """Return the exception for a value of the wrong type."""
    return TypeError(f"{name} is {shown(value)}, but it must be {must}")


def wrong_value(name: str, value: object, must: str) -> ValueError:
    """Return the exception for a value that is out of range."""
    return ValueError(f"{name} is {shown(value)}, but it must be {must}")


def whole(name: str, value: Any, least: int = 0, most: int = MOST) -> int:
    """Return a whole number within a range.

    >>> whole("rounds", 700)
    700
    >>> whole("rounds", 0.5)
    Traceback (most recent call last):
    ValueError: rounds is 0.5, but it must be a whole number, at least 0
    >>> whole("rounds", "5")
    Traceback (most recent call last):
    TypeError: rounds is '5', but it must be a whole number, at least 0
    >>> whole("seed", 2**64, most=MOST_SEED)
    Traceback (most recent call last):
    ValueError: seed is 18446744073709551616, but it must be a whole number, at most 18446744073709551615
    """
    try:
        number = operator.index(value)
    except TypeError:
        wrong = wrong_value if isinstance(value, Number) else wrong_type
        raise wrong(name, value, f"a whole number, at least {least}") from None
    if number < least:
        raise wrong_value(name, value, f"a whole number, at least {least}")
    if number > most:
        raise wrong_value(name, value, f"a whole number, at most {most}")
    return number


def whole_or_none(name: str, value: Any, least: int = 0, most: int = MOST) -> int | None:
    """Return a whole number within a range, or ``None`` if the value is ``None``."""
    return None if value is None else whole(name, value, least, most)


def seed(value: Any, name: str = "seed") -> int:
    """Return a random seed."""
    return whole(name, value, 0, MOST_SEED)


def threads(value: Any) -> int | None:
    """Return the number of threads; ``None`` means all cores."""
    return whole_or_none("threads", value, 1, MOST_THREADS)


def is_number(value: Any) -> bool:
    """Whether a value is a single number; this includes NumPy scalars and zero-dimensional tensors."""
    return isinstance(value, Number) or getattr(value, "ndim", None) == 0


def real(name: str, value: Any) -> float:
    """Return a number.

    >>> real("alarm", "often")
    Traceback (most recent call last):
    TypeError: alarm is 'often', but it must be a number
    """
    kind = type(value)
    if isinstance(value, (str, bytes, bytearray)) or not (hasattr(kind, "__float__") or hasattr(kind, "__index__")):
        raise wrong_type(name, value, "a number")
    try:
        return float(value)
    except OverflowError:
        raise wrong_value(name, value, f"a number of magnitude at most {sys.float_info.max:.1e}") from None
    except (TypeError, ValueError):
        raise wrong_type(name, value, "a number") from None


def real_or_none(name: str, value: Any) -> float | None:
    """Return a number, or ``None`` if the value is ``None``."""
    return None if value is None else real(name, value)


def positive(name: str, value: Any) -> float:
    """Return a finite number above 0."""
    number = real(name, value)
    if not (number > 0 and math.isfinite(number)):
        raise wrong_value(name, value, "a finite number above 0")
    return number


def flag(name: str, value: Any) -> bool:
    """Return a bool; 1 and 0 are accepted.

    >>> flag("subsets", 5)
    Traceback (most recent call last):
    ValueError: subsets is 5, but it must be True or False
    """
    try:
        number = operator.index(value)
    except TypeError:
        if type(value).__name__ in ("bool", "bool_"):  # NumPy's bool has no __index__
            return bool(value)
        raise wrong_type(name, value, "True or False") from None
    if number not in (0, 1):
        raise wrong_value(name, value, "True or False")
    return bool(number)


def interval(name: str, value: Any) -> tuple[float, float]:
    """Return a smallest and a largest value.

    >>> interval("kappa_range", [0, 1])
    (0.0, 1.0)
    >>> interval("kappa_range", 5)
    Traceback (most recent call last):
    TypeError: kappa_range is 5, but it must be two numbers, the smallest and the largest, such as (0.0, 1.0)
    """
    least, greatest = (real(name, end) for end in pair(name, value, f"{_TWO}, such as (0.0, 1.0)"))
    if not (math.isfinite(least) and math.isfinite(greatest) and least <= greatest):
        raise wrong_value(name, value, f"{_TWO}, both finite, such as (0.0, 1.0)")
    return least, greatest


_TWO = "two numbers, the smallest and the largest"


def pair(name: str, value: Any, must: str) -> tuple[Any, Any]:
    """Return a sequence of two values as a pair."""
    ends = items(name, value, must)
    if len(ends) != 2:
        raise wrong_value(name, value, must)
    return ends[0], ends[1]


def items(name: str, value: Any, must: str) -> list[Any]:
    """Return the items of an iterable as a list; text and mappings are rejected."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise wrong_type(name, value, must)
    return list(value)


def mapping(name: str, value: Any, must: str) -> Mapping[Any, Any]:
    """Return a mapping.

    >>> mapping("costs", 5, 'numbers by arm, such as {"flux": 0.5}')
    Traceback (most recent call last):
    TypeError: costs is 5, but it must be numbers by arm, such as {"flux": 0.5}
    """
    if not isinstance(value, Mapping):
        raise wrong_type(name, value, must)
    return value


def by_arm(name: str, what: str, given: Any) -> dict[str, float]:
    """Return numbers by arm, empty if ``None`` is given; ``what`` names one number in messages."""
    found = {} if given is None else mapping(name, given, 'numbers by arm, such as {"flux": 0.5}')
    return {arm_name(arm): real(f"the {what} of {arm}", value) for arm, value in found.items()}


def intervals(name: str, given: Any) -> dict[str, tuple[float, float]]:
    """Return smallest and largest values by name, empty if ``None`` is given."""
    found = {} if given is None else mapping(name, given, 'two numbers by score, such as {"taste": (0.0, 1.0)}')
    return {text(f"a name in {name}", key): interval(f"{name} of {key}", value) for key, value in found.items()}


def text(name: str, value: Any) -> str:
    """Return text."""
    if not isinstance(value, str):
        raise wrong_type(name, value, "text")
    return str(value)


def text_or_none(name: str, value: Any) -> str | None:
    """Return text, or ``None`` if the value is ``None``."""
    return None if value is None else text(name, value)


def choice(name: str, value: Any, *options: str) -> str:
    """Return one of the allowed strings.

    >>> choice("storage", "haf", "single", "half")
    Traceback (most recent call last):
    ValueError: storage is 'haf' (did you mean half?), but it must be single or half
    """
    must = f"{', '.join(options[:-1])} or {options[-1]}"
    if not isinstance(value, str):
        raise wrong_type(name, value, must)
    if value in options:
        return str(value)
    near = _modelmix.nearest(value, list(options))
    meant = f" (did you mean {near}?)" if near else ""
    raise ValueError(f"{name} is {shown(value)}{meant}, but it must be {must}")


def name_list(name: str, given: Any) -> list[str]:
    """Return a list of names; a single string is rejected, because iterating it gives its letters.

    >>> name_list("arms", "flux")
    Traceback (most recent call last):
    TypeError: arms is 'flux', but it must be a list of names; write arms=["flux"]
    """
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        written = given.decode(errors="replace") if isinstance(given, bytes) else given
        words = [word.strip() for word in written.split(",")] if isinstance(written, str) else ["flux", "sdxl"]
        fix = ", ".join(f'"{word}"' for word in words)
        raise wrong_type(name, given, f"a list of names; write {name}=[{fix}]")
    return [text(f"a name in {name}", word) for word in given]


def arm_name(value: Any) -> str:
    """Return the name of an arm, which must be usable in tables and files.

    >>> arm_name("")
    Traceback (most recent call last):
    ValueError: the name of an arm is '', but it must be a single line of text, such as "flux"
    """
    must = 'a single line of text, such as "flux"'
    if not isinstance(value, str):
        raise wrong_type("the name of an arm", value, must)
    if not value.strip() or any(unicodedata.category(letter) in ("Cc", "Zl", "Zp") for letter in value):
        raise wrong_value("the name of an arm", value, must)
    return str(value)


def arm_names(name: str, given: Any) -> list[str]:
    """Return the names of arms as a list."""
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        name_list(name, given)
    return [arm_name(one) for one in given]


def file(name: str, value: Any) -> str:
    """Return a path as text.

    >>> file("checkpoint", b"run.jsonl")
    Traceback (most recent call last):
    TypeError: checkpoint is b'run.jsonl', but it must be a path: text or a pathlib.Path
    """
    must = "a path: text or a pathlib.Path"
    path = fspath(value) if isinstance(value, PathLike) else value
    if not isinstance(path, str):
        raise wrong_type(name, value, must)
    if "\0" in path:
        raise wrong_value(name, value, "a path without a null byte")
    return str(path)


def function(name: str, value: Any) -> Callable[..., Any]:
    """Return a callable."""
    if not callable(value):
        raise wrong_type(name, value, "a function")
    found: Callable[..., Any] = value
    return found
