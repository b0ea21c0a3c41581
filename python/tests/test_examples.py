"""The examples run to completion, and their statements are true."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import runpy
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import modelmix as mm

EXAMPLES = Path(__file__).parents[1] / "examples"


def example(
    name: str, folder: Path, path: Path | None = None, *arguments: str, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run an example in an empty folder; modules in ``path`` take precedence."""
    found = [str(Path(mm.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    paths = os.pathsep.join(filter(None, [str(path) if path else "", *found]))
    return subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths, **environment},
        capture_output=True,
        text=True,
        timeout=300,
    )


def absent(folder: Path, *modules: str) -> Path:
    """Create a folder of modules whose import fails."""
    folder.mkdir()
    for module in modules:
        (folder / f"{module}.py").write_text(f"raise ModuleNotFoundError(name={module!r})\n")
    return folder


def test_offline(tmp_path: Path) -> None:
    done = example("offline.py", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Mix tops_gan 37%, shoes_gan 32%, legs_bags_gan 31%" in done.stdout
    assert "Scores of 5 models and a mixture" in done.stdout and "of the gain from round" in done.stdout
    pictures = sorted(picture.name for picture in tmp_path.iterdir())
    assert pictures == ["offline-mixture.png", "offline-policies.png"]


def test_questions(tmp_path: Path) -> None:
    done = example("questions.py", tmp_path, None, "answers")
    assert done.returncode == 0, done.stderr
    assert not done.stderr

    def said(pattern: str) -> tuple[float, ...]:
        found = re.search(pattern, done.stdout)
        assert found is not None, done.stdout
        return tuple(map(float, found.groups()))

    low, high, p_value = said(r"gain ([\d.]+) to ([\d.]+) .*; p = ([\d.e-]+)")
    samples, bound, gain = said(r"stopped after (\d+) samples; .* at most ([\d.]+) of a gain of ([\d.]+)")
    assert p_value < 0.001 and low < gain < high
    assert 80 < samples < 1000 and bound < 0.2 * gain
    assert "center0, center4, center5, center7 keep 86% of the gain" in done.stdout
    for words in ("Cheapest mixture within the tolerance", "RKE against precision", "choose it with care"):
        assert words in done.stdout
    # on the held-out half, the coreset is better than random rows
    chosen, drawn = said(r"held-out images: coreset ([\d.]+), random rows ([\d.]+)")
    assert chosen < drawn / 2
    out = tmp_path / "answers"
    pictures = {picture.stem for picture in out.glob("*.png")}
    assert pictures == {"mixture", "policies", "subsets", "cheapest", "front", "bandwidths", "curated"}
    header, *rows = (out / "manifest.csv").read_text(encoding="utf-8").splitlines()
    about = json.loads((out / "manifest.csv.json").read_text(encoding="utf-8"))
    assert "no longer an i.i.d. mixture" in about["note"] and header == "arm,row"
    assert len(rows) == len(set(rows)) == 100 and all(re.fullmatch(r"\w+,\d{1,4}", row) for row in rows)
    # without a folder, nothing is written
    alone = tmp_path / "alone"
    alone.mkdir()
    again = example("questions.py", alone)
    assert again.returncode == 0 and not list(alone.iterdir())
    assert done.stdout.startswith(again.stdout)


def test_fashion_live(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    done = example("fashion_live.py", tmp_path, MODELMIX_BUDGET="200")
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    weights = {
        name: (float(live) / 100, float(offline) / 100)
        for name, live, offline in re.findall(r"^(\w+) +([\d.]+)% +([\d.]+)%$", done.stdout, re.M)
    }
    assert list(weights) == ["tops_gan", "shoes_gan", "legs_bags_gan", "vae", "digits_vae"]
    # offline: .37, .31, .31; the online weights are estimated from a few dozen samples per arm
    assert all(abs(live - offline) < 0.15 for live, offline in weights.values())
    assert sum(weights[name][0] for name in ("tops_gan", "shoes_gan", "legs_bags_gan")) > 0.85
    said = re.search(r"of the (\d+) samples collected is ([\d.-]+); .* vae, has ([\d.]+)\.", done.stdout)
    assert said is not None, done.stdout
    assert int(said[1]) == 200
    assert float(said[2]) < float(said[3]) / 5
    out = tmp_path / "fashion-live"
    assert len(list(out.glob("*.npy"))) == 200
    if importlib.util.find_spec("matplotlib") is not None:
        assert (out / "gallery.png").read_bytes().startswith(b"\x89PNG")
    # a second start resumes, here with a larger budget
    more = example("fashion_live.py", tmp_path, MODELMIX_BUDGET="210")
    assert more.returncode == 0, more.stderr
    assert "210 pulls, 200 of them from the checkpoint" in more.stdout
    # the resumed run equals an uninterrupted one
    other = tmp_path / "other"
    once = example("fashion_live.py", tmp_path, MODELMIX_BUDGET="210", MODELMIX_OUT=str(other))
    assert once.returncode == 0, once.stderr
    assert (other / "checkpoint.jsonl").read_bytes() == (out / "checkpoint.jsonl").read_bytes()
    assert all((np.load(file) == np.load(out / file.name)).all() for file in sorted(other.glob("*.npy")))


def test_fashion_live_names_a_missing_package(tmp_path: Path) -> None:
    path = absent(tmp_path / "absent", "onnxruntime")
    done = example("fashion_live.py", tmp_path, path)
    assert done.returncode == 1 and not done.stdout
    assert done.stderr.strip().endswith("install it with pip install onnxruntime.")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("module", ["torch", "diffusers", "transformers"])
def test_live_pipelines_names_a_missing_package(module: str, tmp_path: Path) -> None:
    path = absent(tmp_path / "absent", module)
    for other in {"torch", "diffusers", "transformers"} - {module}:
        (path / f"{other}.py").write_text("")
    done = example("live_pipelines.py", tmp_path, path)
    assert done.returncode == 0 and not done.stderr
    assert done.stdout.startswith(f"This example needs {module}; ")
    assert "pip install torch diffusers transformers" in done.stdout


# Stand-ins for the parts of torch, diffusers and transformers that the example calls, with the same names and arguments


class Tensor:
    """An array with a device; NumPy can read it only on the CPU."""

    def __init__(self, values: Any, device: str = "cpu") -> None:
        self.values, self.device = np.asarray(values), device

    def __getitem__(self, place: Any) -> Tensor:
        return Tensor(self.values[place], self.device)

    def to(self, device: str) -> Tensor:
        return Tensor(self.values, device)

    def float(self) -> Tensor:
        return Tensor(self.values.astype(np.float32), self.device)

    def detach(self) -> Tensor:
        return self

    def cpu(self) -> Tensor:
        return self.to("cpu")

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        assert self.device == "cpu"
        return self.values


class Noise:
    def __init__(self, device: str) -> None:
        assert device == "cpu"

    def manual_seed(self, seed: int) -> Noise:
        self.random = np.random.default_rng(seed)
        return self


class Picture:
    def __init__(self, values: Any, prompt: str) -> None:
        self.values, self.prompt = values, prompt

    def save(self, path: Path) -> None:
        assert path.suffix == ".png"
        path.write_text(json.dumps([self.prompt, self.values.tolist()]))


class Inputs(dict[str, Tensor]):
    def to(self, device: str) -> Inputs:
        return Inputs({name: tensor.to(device) for name, tensor in self.items()})


class Inference:
    depth = 0

    def __enter__(self) -> None:
        Inference.depth += 1

    def __exit__(self, *_: object) -> None:
        Inference.depth -= 1


def fakes(device: str) -> dict[str, types.ModuleType]:
    torch, diffusers, transformers = map(types.ModuleType, ("torch", "diffusers", "transformers"))
    torch.__dict__.update(
        float16="float16",
        float32="float32",
        Generator=Noise,
        inference_mode=Inference,
        cuda=types.SimpleNamespace(is_available=lambda: device == "cuda"),
    )

    class Pipeline:
        failed = False

        def __init__(self, path: str) -> None:
            self.place = float(len(path)) % 7
            self.path, self.quiet, self.ready = path, False, False

        @classmethod
        def from_pretrained(cls, path: str, *, torch_dtype: str) -> Pipeline:
            assert torch_dtype == ("float16" if device == "cuda" else "float32")
            return cls(path)

        def set_progress_bar_config(self, *, disable: bool) -> None:
            self.quiet = disable

        def enable_model_cpu_offload(self) -> None:
            assert device == "cuda"
            self.ready = True

        def to(self, where: str) -> Pipeline:
            assert where == device == "cpu"
            self.ready = True
            return self

        def __call__(
            self,
            *,
            prompt: list[str],
            num_inference_steps: int,
            guidance_scale: float,
            generator: Noise,
        ) -> Any:
            assert self.ready and self.quiet and num_inference_steps > 0 and guidance_scale >= 0
            if "kandinsky" in self.path and not Pipeline.failed:
                Pipeline.failed = True
                raise RuntimeError("CUDA out of memory")
            rows = generator.random.normal(size=(len(prompt), 8)) * 10 + self.place
            pictures = [Picture(row, text) for row, text in zip(rows, prompt, strict=True)]
            return types.SimpleNamespace(images=pictures)

    diffusers.__dict__["AutoPipelineForText2Image"] = Pipeline

    class Processor:
        @classmethod
        def from_pretrained(cls, path: str) -> Processor:
            return cls()

        def __call__(self, *, images: list[Picture], return_tensors: str) -> Inputs:
            assert return_tensors == "pt" and isinstance(images, list)
            return Inputs(pixel_values=Tensor([image.values for image in images]))

    class Network:
        device = "cpu"

        @classmethod
        def from_pretrained(cls, path: str) -> Network:
            return cls()

        def to(self, where: str) -> Network:
            self.device = where
            return self

        def eval(self) -> Network:
            return self

        def __call__(self, *, pixel_values: Tensor) -> Any:
            assert pixel_values.device == self.device == device and Inference.depth == 1
            tokens = np.repeat(pixel_values.values[:, None, :], 3, axis=1).astype(np.float64)
            return types.SimpleNamespace(last_hidden_state=Tensor(tokens, device))

    transformers.__dict__.update(AutoImageProcessor=Processor, AutoModel=Network)
    return {"torch": torch, "diffusers": diffusers, "transformers": transformers}


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_live_pipelines(
    device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("tqdm")
    for name, module in fakes(device).items():
        monkeypatch.setitem(sys.modules, name, module)
    main = runpy.run_path(str(EXAMPLES / "live_pipelines.py"))["main"]
    folder = tmp_path / "pictures"
    done: mm.Run = main(folder, budget=12, batch=3)
    assert done.pulls == 12 and done.report.samples == 36 and Inference.depth == 0
    assert "kandinsky failed 1 times, last with RuntimeError: CUDA out of memory" in capsys.readouterr().out
    pictures = sorted(folder.glob("*.png"))
    assert len(pictures) == 36
    read = [json.loads(picture.read_text()) for picture in pictures]
    assert len({str(values) for _, values in read}) == 36 and len({prompt for prompt, _ in read}) == 4
    # the features told are those of the saved images, in that order
    assert done.session.samples is not None
    assert np.allclose(done.session.samples, [values for _, values in read])
    more: mm.Run = main(folder, budget=15, batch=3)
    assert more.resumed == 12 and more.pulls == 15 and len(list(folder.glob("*.png"))) == 45
