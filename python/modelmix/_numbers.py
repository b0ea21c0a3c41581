"""Numbers that users give, checked before the extension sees them."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from . import _modelmix


def whole(name: str, value: Any, least: int = 0) -> int:
    """A whole number, at least so large.

    >>> whole("rounds", 700)
    700
    >>> whole("rounds", 0.5)
    Traceback (most recent call last):
    ValueError: rounds is 0.5, but it must be a whole number, at least 0
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise ValueError(f"{name} is {value!r}, but it must be a whole number, at least {least}")
    return number


def whole_or_none(name: str, value: Any) -> int | None:
    """The same; ``None`` if none is given."""
    return None if value is None else whole(name, value)


def real(name: str, value: Any) -> float:
    """A number.

    >>> real("alarm", "often")
    Traceback (most recent call last):
    ValueError: alarm is 'often', but it must be a number
    """
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {value!r}, but it must be a number") from None


def real_or_none(name: str, value: Any) -> float | None:
    """The same; ``None`` if none is given."""
    return None if value is None else real(name, value)


def by_arm(what: str, given: Mapping[str, Any] | None) -> dict[str, float]:
    """Numbers by arm, of which ``what`` is the name."""
    if given is not None and not isinstance(given, Mapping):
        kind = type(given).__name__
        raise ValueError(f'a {what} is given by arm, as in {{"flux": 0.5}}, and a {kind} has no arms')
    return {str(arm): real(f"the {what} of {arm}", value) for arm, value in (given or {}).items()}


def choice(name: str, value: Any, *options: str) -> str:
    """One of a few words.

    >>> choice("storage", "haf", "single", "half")
    Traceback (most recent call last):
    ValueError: storage is 'haf' (did you mean half?), but it must be single or half
    """
    if value in options:
        return str(value)
    near = _modelmix.nearest(str(value), list(options))
    meant = f" (did you mean {near}?)" if near else ""
    raise ValueError(f"{name} is {value!r}{meant}, but it must be {' or '.join(options)}")


def name_list(name: str, given: Iterable[Any]) -> list[str]:
    """Names of which a list is meant: a single string would be taken apart into its letters.

    >>> name_list("arms", "flux")
    Traceback (most recent call last):
    ValueError: arms is 'flux', but it must be a list of names; write arms=["flux"]
    """
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        text = given.decode(errors="replace") if isinstance(given, bytes) else given
        words = [word.strip() for word in text.split(",")] if isinstance(text, str) else ["flux", "sdxl"]
        fix = ", ".join(f'"{word}"' for word in words)
        raise ValueError(f"{name} is {given!r}, but it must be a list of names; write {name}=[{fix}]")
    return [str(word) for word in given]
