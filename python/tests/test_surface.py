"""The public API: complete docstrings, type hints that can be evaluated, clean tab completion, and errors that name what the user wrote."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
import typing
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import modelmix as mm
from modelmix import plots, results


def public_modules() -> Iterator[ModuleType]:
    yield mm
    for module in pkgutil.walk_packages(mm.__path__, "modelmix."):
        if not any(part.startswith("_") for part in module.name.split(".")):
            yield importlib.import_module(module.name)


def objects() -> dict[str, Any]:
    """All public objects of ``mm`` and its modules, by name."""
    found: dict[str, Any] = {}
    modules = (("", mm), ("metrics.", mm.metrics), ("results.", results), ("encoders.", mm.encoders), ("plots.", plots))
    for prefix, module in modules:
        for name in module.__all__:
            thing = getattr(module, name)
            if not isinstance(thing, (ModuleType, str)) and thing not in found.values():
                found[prefix + name] = thing
    return found


def methods(owner: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties, except those of mappings and sequences."""
    for name in dir(owner):
        if name.startswith("_"):
            continue
        where = next(base for base in owner.__mro__ if name in vars(base))
        if where.__module__.startswith("modelmix") and (callable(vars(where)[name]) or _special(vars(where)[name])):
            yield name, vars(where)[name]


def _special(thing: Any) -> bool:
    return isinstance(thing, (property, classmethod, staticmethod))


OBJECTS = objects()
FUNCTIONS = {name: thing for name, thing in OBJECTS.items() if inspect.isfunction(thing)}
CLASSES = {name: thing for name, thing in OBJECTS.items() if inspect.isclass(thing)}
METHODS = {
    f"{name}.{method}": getattr(method_of, "__func__", method_of)
    for name, owner in CLASSES.items()
    for method, method_of in methods(owner)
    if not isinstance(method_of, property)
}
PROPERTIES = {
    f"{name}.{method}": thing
    for name, owner in CLASSES.items()
    for method, thing in methods(owner)
    if isinstance(thing, property)
}


def sections(thing: Any) -> dict[str, str]:
    """A docstring by section; the name of the summary is empty."""
    text = inspect.cleandoc(thing.__doc__ or "")
    parts = re.split(r"^(\w+)\n-{3,}\n", text, flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


def listed(section: str) -> set[str]:
    """The names that a section describes: ``a, b`` on one line, with text below."""
    lines = section.split("\n")
    heads = [line for line, below in zip(lines, [*lines[1:], ""]) if line[:1].strip() and below.startswith("    ")]
    return {name.strip().lstrip("*") for line in heads for name in line.split(":")[0].split(",")}


def parameters(function: Callable[..., Any]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def summary_of(thing: Any) -> str:
    return sections(thing)[""].split("\n\n")[0]


def test_many_objects_are_found() -> None:
    assert len(FUNCTIONS) > 15 and len(CLASSES) > 50 and len(METHODS) > 70 and len(PROPERTIES) > 8


@pytest.mark.parametrize("name", FUNCTIONS)
def test_docstrings_of_functions_are_complete(name: str) -> None:
    function, found = FUNCTIONS[name], sections(FUNCTIONS[name])
    assert {"Parameters", "Returns", "Raises", "Examples"} <= set(found)
    assert listed(found["Parameters"]) == set(parameters(function))
    assert summary_of(function).endswith(".") and ">>> " in found["Examples"]


@pytest.mark.parametrize("name", CLASSES)
def test_docstrings_of_classes_are_complete(name: str) -> None:
    owner, found = CLASSES[name], sections(CLASSES[name])
    assert summary_of(owner).endswith(".") and ">>> " in found.get("Examples", "")
    if "Attributes" in found:  # a record that users read but do not create
        assert is_dataclass(owner) and listed(found["Attributes"]) == {field.name for field in fields(owner)}
    elif parameters(owner):
        assert listed(found["Parameters"]) == set(parameters(owner)) and "Raises" in found


@pytest.mark.parametrize("name", METHODS)
def test_docstrings_of_methods_are_complete(name: str) -> None:
    method, found = METHODS[name], sections(METHODS[name])
    assert summary_of(method).endswith(".")
    assert listed(found.get("Parameters", "")) == set(parameters(method))
    assert ("Returns" in found) == (inspect.signature(method).return_annotation not in ("None", None))
    # the base class of results has the examples and exceptions of to_dict, to_pandas and plot
    if name.rsplit(".", 1)[1] not in ("to_dict", "to_pandas", "plot"):
        assert ">>> " in found["Examples"] and "Raises" in found


@pytest.mark.parametrize("name", PROPERTIES)
def test_properties_have_a_summary(name: str) -> None:
    assert summary_of(PROPERTIES[name].fget).endswith(".") and "\n" not in summary_of(PROPERTIES[name].fget)


@pytest.mark.parametrize("name", [*OBJECTS, *METHODS])
def test_type_hints_can_be_evaluated(name: str) -> None:
    thing = OBJECTS.get(name) or METHODS[name]
    hints = typing.get_type_hints(thing)
    if inspect.isclass(thing):
        hints = typing.get_type_hints(thing.__init__)
        assert set(parameters(thing)) <= set(hints) or not parameters(thing)
    else:
        assert {*parameters(thing), "return"} <= set(hints)


@pytest.mark.parametrize("name", PROPERTIES)
def test_type_hints_of_properties_can_be_evaluated(name: str) -> None:
    assert "return" in typing.get_type_hints(PROPERTIES[name].fget)


def test_type_hints_do_not_need_optional_packages() -> None:
    """If pandas or matplotlib is missing, their types are unknown, and everything else is unchanged."""
    script = """
import sys, typing
sys.modules["pandas"] = sys.modules["matplotlib"] = sys.modules["matplotlib.axes"] = None
import modelmix as mm
assert "numpy" not in sys.modules
hints = typing.get_type_hints(mm.Mixture.to_pandas), typing.get_type_hints(mm.Mixture.plot)
assert hints[0]["return"] is hints[1]["return"] is typing.Any, hints
assert typing.get_type_hints(mm.solve)["return"] is mm.Mixture
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", list(public_modules()), ids=lambda module: module.__name__)
def test_completion_offers_public_names_only(module: ModuleType) -> None:
    assert sorted(dir(module)) == sorted(module.__all__)
    assert not {"Any", "annotations", "np", "Mapping", "checked"} & set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_completion_of_objects_offers_public_names_only() -> None:
    best = mm.solve({"a": [[0.0], [1.0]], "b": [[5.0], [6.0]]}, mm.Rke(bandwidth=1))
    offered = {name for name in dir(best) if not name.startswith("_")}
    known = {field.name for field in fields(best)} | {name for name, _ in methods(mm.Mixture)}
    assert offered == known | {"keys", "items", "values", "get"}


UNKNOWN: dict[str, Callable[[], object]] = {
    "Mmd has no argument sigma (did you mean bandwidth?)": lambda: mm.Mmd(sigma=3),  # type: ignore[call-arg]
    "Mmd takes 1 argument by position, but 2 were given; name the others: kernel=…, bandwidth=…":
        lambda: mm.Mmd(np.eye(2), 3),  # type: ignore[call-arg, arg-type]
    "Kid has no argument bandwidth: KID has one kernel, (x·y/d + 1)³, which has no bandwidth; "
    "write Mmd(reference, bandwidth=20)": lambda: mm.Kid(np.eye(2), bandwidth=20),  # type: ignore[call-arg]
    "Kid has no argument sigma: KID has one kernel, (x·y/d + 1)³, which has no bandwidth; "
    "write Mmd(reference, bandwidth=3)": lambda: mm.Kid(sigma=3),  # type: ignore[call-arg]
    "Kid has no argument kernel: KID has one kernel, (x·y/d + 1)³, which has no bandwidth; "
    "write Mmd(reference, kernel='laplacian')": lambda: mm.Kid(kernel="laplacian"),  # type: ignore[call-arg]
    "Kid has no argument kernel: KID has one kernel, (x·y/d + 1)³, which has no bandwidth; write Kid(reference)":
        lambda: mm.Kid(kernel="kid"),  # type: ignore[call-arg]
    "Kid has no argument neighbours; it takes reference": lambda: mm.Kid(neighbours=3),  # type: ignore[call-arg]
    "Rke has no argument bandwith (did you mean bandwidth?)": lambda: mm.Rke(bandwith=3),  # type: ignore[call-arg]
    "Rke takes no argument by position, but 1 was given": lambda: mm.Rke(3),  # type: ignore[call-arg, arg-type]
    "solve has no argument refrence (did you mean reference?)": lambda: mm.solve({}, refrence=3),  # type: ignore[call-arg]
    "score has no argument random_state (did you mean seed?)": lambda: mm.score({}, random_state=3),  # type: ignore[call-arg]
    "precision has no argument k (did you mean neighbours?)":
        lambda: mm.metrics.precision([], [], k=3),  # type: ignore[call-arg]
    "fid has no argument neighbours; it takes samples, reference, weights, threads":
        lambda: mm.metrics.fid([], [], neighbours=3),  # type: ignore[call-arg]
    "Session has no argument polcy (did you mean policy?)": lambda: mm.Session([], polcy=3),  # type: ignore[call-arg]
    "Session.report has no argument bound (did you mean bounds?)":
        lambda: mm.Session(["a"], mm.Rke(bandwidth=1)).report(bound=1),  # type: ignore[call-arg]
    "Session.on_values has no argument objective": lambda: mm.Session.on_values(["a"], objective=1),  # type: ignore[call-arg]
    "Until takes no argument by position, but 1 was given; name the others: gain=…, loss=…":
        lambda: mm.Until(0.05),  # type: ignore[call-arg]
    "Cab has no argument sensitvity (did you mean sensitivity?)": lambda: mm.Cab(sensitvity=1),  # type: ignore[call-arg]
    "Adaptive has no argument beta; it takes no arguments": lambda: mm.Adaptive(beta=1),  # type: ignore[call-arg]
    "run has no argument buget (did you mean budget?)": lambda: mm.run({}, list, buget=1),  # type: ignore[call-arg]
    "load has no argument arms (did you mean arm?)": lambda: mm.load("x.npy", arms="model"),  # type: ignore[call-arg]
}  # fmt: skip


@pytest.mark.parametrize("sentence", UNKNOWN)
def test_unknown_arguments_are_named(sentence: str) -> None:
    with pytest.raises(TypeError) as raised:
        UNKNOWN[sentence]()
    assert str(raised.value).startswith(sentence)


@pytest.mark.parametrize(
    "name", [*FUNCTIONS, *(name for name, owner in CLASSES.items() if not (owner.__doc__ or "").count("Attributes"))]
)
def test_errors_name_the_function_that_was_called(name: str) -> None:
    with pytest.raises(TypeError) as raised:
        OBJECTS[name](no_such_argument=1)
    assert str(raised.value).startswith(f"{name.rsplit('.', 1)[-1]} has no argument no_such_argument")


STRINGS: dict[str, Callable[[], object]] = {
    "arms is 'abc', but it must be a list of names; write arms=[\"abc\"]":
        lambda: mm.Session("abc", mm.Rke(bandwidth=1)),
    "arms is 'flux, sdxl', but it must be a list of names; write arms=[\"flux\", \"sdxl\"]":
        lambda: mm.Session.on_values("flux, sdxl"),
    "arms is b'abc', but it must be a list of names": lambda: mm.Session(b"abc", mm.Rke(bandwidth=1)),  # type: ignore[arg-type]
    "arms is 3, but it must be a list of names; write arms=[\"flux\", \"sdxl\"]":
        lambda: mm.Session(3, mm.Rke(bandwidth=1)),  # type: ignore[arg-type]
    "metrics is 'fid', but it must be a list of names; write metrics=[\"fid\"]":
        lambda: mm.score({"a": [[0.0], [1.0]]}, metrics="fid"),  # type: ignore[arg-type]
    "policies is 'adaptive', but it must be a list of policies; write policies=[\"adaptive\"]":
        lambda: mm.simulate({"a": [[0.0], [1.0]]}, policies="adaptive"),
    "policies is Cab(), but it must be a list of policies; write policies=[\"cab\"]":
        lambda: mm.simulate({"a": [[0.0], [1.0]]}, policies=mm.Cab()),  # type: ignore[arg-type]
    "weights is '0.5', but it must be a list of numbers, such as [0.5, 0.5]":
        lambda: mm.Fixed("0.5"),  # type: ignore[arg-type]
    "costs is 'a', but it must be numbers by arm, such as {\"flux\": 0.5}":
        lambda: mm.solve({"a": [[0.0], [1.0]]}, "rke + cost", costs="a"),  # type: ignore[arg-type]
}  # fmt: skip


@pytest.mark.parametrize("sentence", STRINGS)
def test_a_string_is_not_a_list(sentence: str) -> None:
    with pytest.raises(TypeError) as raised:
        STRINGS[sentence]()
    assert str(raised.value).startswith(sentence)
