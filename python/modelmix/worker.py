"""Runs Python functions as a worker of ``modelmix run``: a generator, an encoder or a score.

::

    python -m modelmix.worker flux:generate --max-batch 4
    python -m modelmix.worker --encoder clip.py:embed

``flux:generate`` is the function ``generate`` of the module ``flux``, or of the file ``flux.py`` if it is written ``flux.py:generate``.
A generator is called as ``generate(prompt=…, seed=…, count=…)`` with those of these arguments that it has. It returns one sample or a
list of them: a text, the bytes of a file, a path, a PIL image, an array of 8-bit pixels, or an array of floats, which is a row of
features per sample. An encoder is called with a text or the bytes of a file and returns features; a score returns a number, and gets
the prompt, too, if it has an argument ``prompt``.

What these functions print goes to stderr. An exception is reported as an error after which modelmix tries again; :class:`Refused` and
:class:`Fatal` say otherwise. Only the standard library is needed. The file also runs as a script, ``python …/modelmix/worker.py``, without
the modelmix package and without the time to import it; ``from modelmix.worker import Refused`` works then, too.

The lines are specified in ``docs/live-protocol.md``.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import importlib
import importlib.util
import inspect
import io
import json
import math
import os
import struct
import sys
import traceback
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

__all__ = ["Fatal", "Refused", "main"]


def __dir__() -> list[str]:
    return __all__


# Codes of buffers with floats of 16, 32 and 64 bits, and their sizes in bytes.
_FLOATS = {"e": 2, "f": 4, "d": 8}

# The colour type of a PNG file by the number of channels: grey, grey with alpha, RGB, RGB with alpha.
_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}

# The modes of PIL images that PNG files can hold.
_PNG_MODES = ("1", "L", "LA", "P", "RGB", "RGBA")


class Refused(Exception):
    """Raised by a generator that does not answer a prompt, for example because of a content filter."""


class Fatal(Exception):
    """Raised if another attempt would fail, too."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Answer requests on stdin until it is closed.

    Parameters
    ----------
    arguments
        The arguments of the command line; those of the process by default.
    """
    parser = argparse.ArgumentParser(
        prog="modelmix.worker", description="Run Python functions as a worker of modelmix."
    )
    parser.add_argument("generator", nargs="?", help="the generator, as in flux:generate or flux.py:generate")
    parser.add_argument(
        "--max-batch", type=int, default=1, help="the largest count that the generator takes; 1 by default"
    )
    parser.add_argument("--encoder", help="a function of a text or the bytes of a file that returns features")
    parser.add_argument("--score", help="a function of a text or the bytes of a file that returns a number")
    options = parser.parse_args(arguments)
    if not (options.generator or options.encoder or options.score):
        parser.error("name a function, as in flux:generate, or one for --encoder or --score")
    if options.max_batch < 1:
        parser.error(f"--max-batch {options.max_batch} is not possible; give at least 1")

    requests, replies = _take_pipes()
    names = {"generate": options.generator, "encode": options.encoder, "score": options.score}
    functions = {role: _function(name) for role, name in names.items() if name}
    if "generate" in functions:
        _check_generator(functions["generate"], options.generator, options.max_batch)
    hello = {
        "modelmix": 1,
        "max_batch": options.max_batch,
        "max_in_flight": 1,
        "name": ", ".join(name for name in names.values() if name),
        "fingerprint": _fingerprint(names, functions),
    }
    _write(replies, json.dumps(hello))
    for line in requests:
        if line.strip():
            _write(replies, _answer(json.loads(line), functions))


def _take_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Return stdin and stdout for the protocol, and give functions an empty stdin, and stderr as their stdout."""
    requests, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
    return requests, replies


def _function(name: str) -> Callable[..., Any]:
    """Import a function by ``module:function`` or ``file.py:function``."""
    module_name, separator, attributes = name.rpartition(":")
    if not separator or not module_name or not attributes:
        raise SystemExit(f"{name!r} names no function; write module:function, as in flux:generate")
    if module_name.endswith(".py"):
        path = Path(module_name).resolve()
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None or not path.is_file():
            raise SystemExit(f"{module_name} does not exist; correct the path")
        sys.path.insert(0, str(path.parent))
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module
        spec.loader.exec_module(module)
    else:
        module = importlib.import_module(module_name)
    function: Any = module
    for attribute in attributes.split("."):
        try:
            function = getattr(function, attribute)
        except AttributeError:
            raise SystemExit(f"{module_name} has no {attributes}; correct the name of the function") from None
    if not callable(function):
        raise SystemExit(f"{name} is not a function; name one")
    return function  # type: ignore[no-any-return]


def _parameters(function: Callable[..., Any]) -> tuple[dict[str, bool], bool]:
    """Return whether each keyword argument of a function is required, and whether it takes any others."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}, True
    named = {
        one.name: one.default is one.empty
        for one in parameters
        if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)
    }
    return named, any(one.kind is one.VAR_KEYWORD for one in parameters)


def _check_generator(function: Callable[..., Any], name: str, max_batch: int) -> None:
    """Reject a generator that cannot be called."""
    named, takes_others = _parameters(function)
    unknown = [one for one, is_required in named.items() if is_required and one not in ("prompt", "seed", "count")]
    if unknown:
        raise SystemExit(f"{name} needs the argument {unknown[0]}; modelmix gives prompt, seed and count only")
    if max_batch > 1 and "count" not in named and not takes_others:
        raise SystemExit(f"{name} has no argument count, so --max-batch {max_batch} is not possible; add the argument")


def _fingerprint(names: Mapping[str, str | None], functions: Mapping[str, Callable[..., Any]]) -> str:
    """Return a checksum of the names of the functions and of the files that define them."""
    digest = hashlib.sha256()
    for role, function in functions.items():
        digest.update(f"{role} {names[role]}\n".encode())
        module = sys.modules.get(getattr(function, "__module__", None) or "")
        file = getattr(module, "__file__", None)
        if file and os.path.isfile(file):
            digest.update(hashlib.sha256(Path(file).read_bytes()).digest())
    return digest.hexdigest()


def _write(replies: BinaryIO, line: str) -> None:
    """Write one line."""
    replies.write(line.encode() + b"\n")
    replies.flush()


def _answer(request: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]]) -> str:
    """Return the line of the reply to a request."""
    role = next((role for role in ("encode", "score") if role in request), "generate")
    answer: dict[str, Any] = {"id": request["id"]}
    try:
        if role not in functions:
            raise Fatal(f"this worker has no function to {role}; start it with one")
        function = functions[role]
        if role == "generate":
            answer.update(_generated(_called(function, request), request["count"]))
        else:
            sample = request[role]
            if role == "encode":
                answer["features"] = _row(function(_sample_of(sample)))
            else:
                prompt = _chosen(function, {"prompt": sample.get("prompt")})
                answer["value"] = _number(function(_sample_of(sample), **prompt))
        return json.dumps(answer, allow_nan=False)
    except Exception as error:
        traceback.print_exc()
        message = (
            str(error) if isinstance(error, (Refused, Fatal)) and str(error) else f"{type(error).__name__}: {error}"
        )
        answer = {"id": request["id"], "error": message, "retry": not isinstance(error, (Refused, Fatal))}
        if isinstance(error, Refused):
            answer["refused"] = True
        return json.dumps(answer)


def _called(function: Callable[..., Any], request: Mapping[str, Any]) -> Any:
    return function(**_chosen(function, {name: request.get(name) for name in ("prompt", "seed", "count")}))


def _chosen(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that a function has."""
    named, takes_others = _parameters(function)
    return {name: value for name, value in arguments.items() if takes_others or name in named}


def _sample_of(sample: Mapping[str, Any]) -> str | bytes | list[float]:
    """Return the sample of a request of an encoder or a score."""
    if "base64" in sample:
        return base64.b64decode(sample["base64"])
    if "text" in sample:
        return str(sample["text"])
    return list(sample["features"])


def _generated(returned: Any, count: int) -> dict[str, Any]:
    """Return the samples, and the cost if it is stated, of what a generator returned."""
    answer: dict[str, Any] = {}
    if isinstance(returned, Mapping) and "samples" in returned:
        if returned.get("cost") is not None:
            answer["cost"] = _number(returned["cost"])
        returned = returned["samples"]
    answer["samples"] = list(_samples(returned))
    if len(answer["samples"]) > count:
        raise Fatal(f"the generator returned {len(answer['samples'])} samples, but {count} were asked for")
    return answer


def _samples(value: Any) -> Iterator[dict[str, Any]]:
    """Yield the samples in a value as the protocol writes them."""
    if isinstance(value, str):
        yield {"text": value}
    elif isinstance(value, (bytes, bytearray)):
        yield _encoded(bytes(value))
    elif isinstance(value, os.PathLike):
        yield {"file": os.path.abspath(os.fspath(value))}
    elif isinstance(value, Mapping):
        # The form of the protocol, with features of any form.
        yield {key: _row(one) if key == "features" else one for key, one in value.items()}
    elif isinstance(value, (list, tuple)):
        if value and all(isinstance(one, (int, float)) for one in value):
            yield {"features": _row(value)}
        else:
            for one in value:
                yield from _samples(one)
    elif hasattr(value, "save") and hasattr(value, "mode"):
        file = io.BytesIO()
        (value if value.mode in _PNG_MODES else value.convert("RGB")).save(file, "PNG")
        yield _encoded(file.getvalue())
    else:
        yield from _samples_of_array(_buffer(value))


def _encoded(content: bytes) -> dict[str, Any]:
    return {"base64": base64.b64encode(content).decode()}


def _buffer(value: Any) -> memoryview:
    """Return the memory of an array of NumPy, torch or another library."""
    if hasattr(value, "detach"):
        value = value.detach().cpu().numpy()
    try:
        return memoryview(value)
    except TypeError:
        if hasattr(value, "__array__"):
            return memoryview(value.__array__())
    kind = type(value).__name__
    raise Fatal(f"a value of type {kind} is not a sample; return a text, bytes, a path, an image or an array")


def _samples_of_array(view: memoryview) -> Iterator[dict[str, Any]]:
    """Yield the samples in an array: images of 8-bit pixels, or rows of features."""
    shape = tuple(view.shape or ())
    if view.format == "B":
        content = view.tobytes()
        if len(shape) == 1:
            # The bytes of a file.
            yield _encoded(content)
        elif len(shape) == 2:
            yield _encoded(_png(content, shape[0], shape[1], 1))
        elif len(shape) in (3, 4) and shape[-1] in _COLOUR_TYPES:
            height, width, channels = shape[-3:]
            size = height * width * channels
            for start in range(0, len(content), size):
                yield _encoded(_png(content[start : start + size], height, width, channels))
        else:
            raise Fatal(
                f"the shape {shape} is not that of images; return height × width × channels, or several of these"
            )
        return
    values = _floats(view)
    if len(shape) not in (1, 2):
        raise Fatal(
            f"floats of the shape {shape} are not features; convert images to 8 bits, as in (255 * x).round().astype('uint8')"
        )
    for start in range(0, len(values), shape[-1]):
        yield {"features": _row(values[start : start + shape[-1]])}


def _floats(view: memoryview) -> list[float]:
    """Return the elements of an array of floats in C order."""
    order, code = ("=", view.format) if view.format in _FLOATS else (view.format[:1], view.format[1:])
    if code not in _FLOATS or order not in "@=<>!":
        raise Fatal(f"an array with elements of type {view.format!r} is not a sample; return 8-bit pixels or floats")
    content = view.tobytes()
    return list(struct.unpack(f"{'=' if order == '@' else order}{len(content) // _FLOATS[code]}{code}", content))


def _row(value: Any) -> list[float]:
    """Return the features of one sample as finite numbers."""
    if not isinstance(value, (list, tuple)):
        view = _buffer(value)
        if len(view.shape or ()) == 2 and view.shape is not None and view.shape[0] != 1:
            raise Fatal(f"features of the shape {tuple(view.shape)} are not those of one sample; return one row")
        value = _floats(view)
    row = [float(one) for one in value]
    if not row or not all(map(math.isfinite, row)):
        raise Fatal("features are empty or not finite; check the model")
    return row


def _number(value: Any) -> float:
    """Return a finite number."""
    number = float(value)
    if not math.isfinite(number):
        raise Fatal(f"{number} is not a finite number; check the function")
    return number


def _png(pixels: bytes, height: int, width: int, channels: int) -> bytes:
    """Return a PNG file of interleaved 8-bit pixels."""
    if not pixels:
        raise Fatal("an image has no pixels; check the model")

    def chunk(name: bytes, content: bytes) -> bytes:
        checksum = struct.pack(">I", zlib.crc32(name + content))
        return struct.pack(">I", len(content)) + name + content + checksum

    size = width * channels
    # Each row starts with its filter: none.
    rows = b"".join(b"\0" + pixels[start : start + size] for start in range(0, height * size, size))
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    signature = b"\x89PNG\r\n\x1a\n"
    return signature + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


if __name__ == "__main__":
    # The exceptions of this module and of the functions are then the same.
    sys.modules.setdefault("modelmix.worker", sys.modules["__main__"])
    if __package__ in (None, ""):
        # A script has its own folder in the path, whose modules would hide others; a command has the working folder.
        sys.path[0] = os.getcwd()
    main()
