"""The installed package: its contents, its imports, and the type checks of a user's script."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from places import ROOT

import modelmix as mm


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, cwd=ROOT)


def test_the_import_loads_nothing_heavy() -> None:
    """NumPy takes longer to import than the whole package; it is imported with the first array."""
    script = "import sys, modelmix; print([name for name in ('numpy', 'pandas', 'matplotlib', 'tqdm', 'torch') if name in sys.modules])"
    assert python("-c", script).stdout == "[]\n"


def test_installed_files() -> None:
    folder = Path(mm.__file__).parent
    assert ROOT not in folder.parents or "site-packages" in folder.parts, "the tests run on the installed wheel"
    names = {path.name for path in folder.iterdir()}
    assert {"py.typed", "_modelmix.pyi", "__init__.py"} <= names
    assert mm.__version__ == metadata.version("modelmix")
    assert metadata.metadata("modelmix")["Requires-Python"] == ">=3.10"


def test_everything_public_is_documented() -> None:
    for name in mm.__all__:
        thing = getattr(mm, name)
        assert name.startswith("__") or (thing.__doc__ and len(thing.__doc__) > 10), name


def test_the_stub_matches_the_extension() -> None:
    import ast
    import inspect

    from modelmix import _modelmix

    tree = ast.parse((Path(mm.__file__).parent / "_modelmix.pyi").read_text())
    known = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    constants = [node.target for node in tree.body if isinstance(node, ast.AnnAssign)]
    known |= {target.id for target in constants if isinstance(target, ast.Name) and not target.id.startswith("_")}
    assert known == {name for name in dir(_modelmix) if not name.startswith("_")}
    functions: list[tuple[object, ast.FunctionDef]] = []
    functions += [(_modelmix, node) for node in tree.body if isinstance(node, ast.FunctionDef)]
    for owner in (_modelmix.Session, _modelmix.Journal):
        [written] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == owner.__name__]
        methods = [node for node in written.body if isinstance(node, ast.FunctionDef)]
        assert {node.name for node in methods} == {name for name in dir(owner) if not name.startswith("_")}
        functions += [(owner, node) for node in methods]
    for owner, node in functions:
        real = inspect.signature(getattr(owner, node.name)).parameters.values()
        names = [argument.arg for argument in node.args.posonlyargs + node.args.args]
        assert names == [parameter.name for parameter in real], node.name
        optional = [parameter.name for parameter in real if parameter.default is not parameter.empty]
        assert optional == names[len(names) - len(node.args.defaults) :], node.name


def test_a_former_name_gets_a_hint() -> None:
    with pytest.raises(AttributeError, match=r"modelmix\.Score is now modelmix\.SampleScore"):
        mm.Score  # type: ignore[attr-defined]  # noqa: B018
    with pytest.raises(AttributeError, match="module 'modelmix' has no attribute 'solver'"):
        mm.solver  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_users_script_type_checks(checker: str) -> None:
    words = ["mypy", "--strict"] if checker == "mypy" else ["pyright", "--pythonpath", sys.executable]
    done = python("-m", *words, "python/tests/typing/user.py")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_a_users_mistakes_are_found(checker: str) -> None:
    """Without this, types that accept everything would pass the test above."""
    words = ["mypy", "--strict"] if checker == "mypy" else ["pyright", "--pythonpath", sys.executable]
    done = python("-m", *words, "python/tests/typing/mistakes.py")
    source = (ROOT / "python/tests/typing/mistakes.py").read_text().splitlines()
    wrong = {number for number, line in enumerate(source, 1) if line.endswith("# wrong")}
    found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if "mistakes.py:" in line and "error" in line}
    assert found == wrong, done.stdout


def test_the_script_runs() -> None:
    done = python("python/tests/typing/user.py")
    assert done.returncode == 0, done.stderr


def test_the_package_type_checks_itself() -> None:
    done = python("-m", "mypy", "--strict", "--package", "modelmix")
    assert done.returncode == 0, done.stdout
