"""Folders of images in solve, score, simulate, curate and plan: the same results as from features, and a sentence without an encoder."""

from __future__ import annotations

import copy
import hashlib
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fashion_images import ENCODER, IMAGES, pixels, write_folder

import modelmix as mm

ARMS = ("tops_gan", "shoes_gan", "vae")
RKE = mm.Rke(bandwidth=5)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELMIX_CACHE", str(tmp_path_factory.getbasetemp() / "features"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("arms")
    for arm in ARMS:
        write_folder(made / arm, pixels(arm)[:30])
    return made


@pytest.fixture(scope="module")
def encoder() -> mm.encoders.Encoder:
    return mm.encoders.open(ENCODER)


@pytest.fixture(scope="module")
def features(encoder: mm.encoders.Encoder) -> dict[str, Any]:
    return {arm: np.array(encoder(pixels(arm)[:30])) for arm in ARMS}


def forms(folder: Path) -> dict[str, Any]:
    return {
        "folders by name": {arm: folder / arm for arm in ARMS},
        "a list of folders": [folder / arm for arm in ARMS],
        "a list with names": [f"{arm}={folder / arm}" for arm in ARMS],
        "images in memory": {arm: pixels(arm)[:30] for arm in ARMS},
        "lists of images": {arm: list(pixels(arm)[:30]) for arm in ARMS},
    }


@pytest.mark.parametrize("form", forms(Path()))
def test_images_are_arms(form: str, folder: Path, encoder: mm.encoders.Encoder, features: dict[str, Any]) -> None:
    given, reference = forms(folder)[form], IMAGES / "reference.npz"
    known = np.array(mm.encode(reference, encoder).features)
    settings: dict[str, Any] = {"encoder": encoder}
    assert mm.solve(given, RKE, **settings) == mm.solve(features, RKE)
    wanted = mm.solve(features, mm.Mmd(known, bandwidth=5))
    assert mm.solve(given, mm.Mmd(bandwidth=5), reference=reference, **settings) == wanted
    assert mm.solve(given, mm.Mmd(reference, bandwidth=5), **settings) == wanted
    kid = {"metrics": ["kid_full"], "mixture": False}
    assert mm.score(given, reference, **kid, **settings) == mm.score(features, known, **kid)  # type: ignore[arg-type]
    assert mm.simulate(given, RKE, rounds=5, seeds=1, **settings) == mm.simulate(features, RKE, rounds=5, seeds=1)
    assert mm.curate(given, RKE, count=5, **settings) == mm.curate(features, RKE, count=5)
    few: dict[str, Any] = {"weight_error": 0.05}
    assert mm.plan(given, RKE, **few, **settings) == mm.plan(features, RKE, **few)


def test_every_array_of_a_file_is_an_arm(encoder: mm.encoders.Encoder) -> None:
    best = mm.solve(IMAGES / "specialists.npz", RKE, encoder=encoder)
    assert list(best) == ["tops_gan", "shoes_gan", "legs_bags_gan", "vae", "flow"]
    picked = mm.solve(
        {"vae": f"{IMAGES / 'specialists.npz'}:vae", "flow": f"{IMAGES / 'specialists.npz'}:flow"}, RKE, encoder=encoder
    )
    assert list(picked) == ["vae", "flow"]
    with pytest.raises(ValueError, match=r"has 5 sets of samples; pick one, as in .*specialists.npz:tops_gan"):
        mm.solve({"all": IMAGES / "specialists.npz"}, RKE, encoder=encoder)


def test_features_and_images_can_be_mixed(folder: Path, encoder: mm.encoders.Encoder, tmp_path: Path) -> None:
    encoded = mm.encode(folder / "vae", encoder)
    encoded.save(tmp_path / "vae.npz")
    np.save(tmp_path / "plain.npy", encoded.features)
    wanted = mm.solve({"vae": encoded, "tops_gan": mm.encode(folder / "tops_gan", encoder)}, RKE)
    for vae in (encoded, tmp_path / "vae.npz", tmp_path / "plain.npy", encoded.features, encoded.features.tolist()):
        assert mm.solve({"vae": vae, "tops_gan": folder / "tops_gan"}, RKE, encoder=encoder) == wanted


def test_a_function_as_encoder(folder: Path) -> None:
    def means(images: list[Any]) -> Any:
        return [[float(image.mean()), float(image.std())] for image in images]

    wanted = mm.solve({arm: mm.encode(pixels(arm)[:30], means).features for arm in ARMS}, RKE)
    assert mm.solve({arm: folder / arm for arm in ARMS}, RKE, encoder=means) == wanted


def test_texts_with_a_function(tmp_path: Path) -> None:
    def counts(texts: list[str]) -> Any:
        return [[float(len(text)), float(text.count("a"))] for text in texts]

    texts = {"one": ["a", "banana", "né"], "two": ["cat", "aaa", "x" * 9]}
    for arm, listed in texts.items():
        (tmp_path / f"{arm}.txt").write_text("\n".join(listed), encoding="utf-8")
    wanted = mm.solve({arm: counts(listed) for arm, listed in texts.items()}, RKE)
    assert mm.solve({arm: tmp_path / f"{arm}.txt" for arm in texts}, RKE, encoder=counts) == wanted
    assert mm.solve(dict(texts), RKE, encoder=counts) == wanted


@pytest.mark.parametrize("name", ["solve", "score", "simulate", "curate", "plan", "load", "median_bandwidth"])
def test_images_without_an_encoder_are_refused(name: str, folder: Path, tmp_path: Path) -> None:
    more: dict[str, Any] = {"curate": {"count": 3}, "plan": {"weight_error": 0.1}}.get(name, {})
    texts = tmp_path / "prompts.txt"
    texts.write_text("a cat\n")
    images = rf"^{folder / 'vae'} has images, which need an encoder; encode them, as in mm\.encode\('{folder / 'vae'}', 'dinov2-vitl14'\), or name"
    for given in (folder / "vae", f"vae={folder / 'vae'}", [folder / "vae"]):
        with pytest.raises(ValueError, match=images):
            getattr(mm, name)(given, **more)
    if name not in ("load", "median_bandwidth"):
        with pytest.raises(ValueError, match=images):
            getattr(mm, name)({"vae": folder / "vae"}, **more)
    with pytest.raises(ValueError, match=r"prompts.txt has texts, which need an encoder; .*'all-minilm-l6-v2'"):
        getattr(mm, name)(texts, **more)


def test_an_encoder_without_anything_to_encode_is_refused(features: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"every input has features already.*leave out encoder="):
        mm.solve(features, RKE, encoder="dinov2-vitl14")
    with pytest.raises(ValueError, match=r"every input has features already"):
        mm.score("data/fashion/specialists.npz", encoder=ENCODER)


def test_arms_of_different_encoders_are_refused(folder: Path, encoder: mm.encoders.Encoder, tmp_path: Path) -> None:
    """The sentence is the library's, so that it is the same on the command line."""
    other = tmp_path / "other.onnx"
    other.write_bytes(ENCODER.read_bytes())
    settings = ENCODER.with_suffix(".encoder.toml").read_text()
    (tmp_path / "other.encoder.toml").write_text(settings.replace("bicubic", "bilinear"))
    one, two = mm.encode(folder / "vae", encoder), mm.encode(folder / "tops_gan", other)
    sentence = (
        r"arm two was made by other.onnx \(\w{8}\), but arm one was made by encoder.onnx \(\w{8}\); "
        "every arm and the reference must come from the same encoder with the same preprocessing"
    )
    with pytest.raises(ValueError, match=sentence):
        mm.solve({"one": one, "two": two}, RKE)
    two.save(tmp_path / "two.npz")
    with pytest.raises(ValueError, match=sentence):
        mm.solve({"one": folder / "vae", "two": tmp_path / "two.npz"}, RKE, encoder=encoder)
    with pytest.raises(ValueError, match=r"the reference was made by other.onnx"):
        mm.solve({"one": one}, mm.Mmd(two, bandwidth=5))
    with pytest.raises(ValueError, match=r"was made by"):
        mm.metrics.kid(one, two)
    for copied in (copy.deepcopy(two), pickle.loads(pickle.dumps(two))):
        assert copied == two and copied != one
        with pytest.raises(ValueError, match=sentence):
            mm.solve({"one": one, "two": copied}, RKE)


def test_curate_lists_the_chosen_files(folder: Path, encoder: mm.encoders.Encoder, features: dict[str, Any]) -> None:
    chosen = mm.curate({arm: folder / arm for arm in ARMS}, RKE, count=8, encoder=encoder)
    assert chosen.files == [str(folder / arm / f"{row}.png") for arm, row in chosen.ids]
    assert chosen.samples == [f"{row}.png" for _, row in chosen.ids]
    table = chosen.to_pandas()
    assert list(table) == ["arm", "row", "sample", "file"] and list(table["file"]) == chosen.files
    before = {arm: mm.encode(folder / arm, encoder) for arm in ARMS}
    assert mm.curate(before, RKE, count=8).files == chosen.files
    plain = mm.curate(features, RKE, count=8)
    assert plain.files == plain.samples == [None] * 8 and list(plain.to_pandas()) == ["arm", "row"]
    assert plain.to_dict()["rows"] == chosen.to_dict()["rows"]
    mixed = mm.curate({**features, "vae": folder / "vae"}, RKE, count=8, encoder=encoder)
    assert [file is None for file in mixed.files] == [arm != "vae" for arm, _ in mixed.ids]


def test_provenance_states_the_encoder_and_the_samples(folder: Path, encoder: mm.encoders.Encoder) -> None:
    best = mm.solve({"vae": folder / "vae", "tops_gan": folder / "tops_gan"}, RKE, encoder=encoder)
    assert best.provenance is not None
    assert best.provenance.encoding == encoder.encoding
    encoded = mm.encode(folder / "vae", encoder)
    found = best.provenance.inputs[0]
    assert (found.path, found.sha256, found.bytes) == (str(folder / "vae"), encoded.sha256, None)
    # computed here: id, a zero byte and the checksum of each file, in order
    whole = hashlib.sha256()
    for name in encoded.ids:
        whole.update(name.encode() + b"\0" + hashlib.sha256((folder / "vae" / name).read_bytes()).digest())
    assert encoded.sha256 == whole.hexdigest()
    document = best.to_dict()["provenance"]
    assert document["encoding"]["encoder"] == "encoder.onnx" and document["inputs"][0]["sha256"] == encoded.sha256
    assert "features by encoder.onnx" in best._repr_html_()
    assert mm.solve({"a": [[0.0], [1.0]]}, RKE).provenance.encoding is None  # type: ignore[union-attr]


def test_the_preset_of_a_score_chooses_the_preprocessing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """As on the command line: `score --preset clean-fid --encoder inception-v3-fid` preprocesses like clean-fid."""
    opened: list[dict[str, Any]] = []

    def refuse(name: str, **settings: Any) -> mm.encoders.Encoder:
        opened.append(settings)
        raise LookupError(name)

    monkeypatch.setattr("modelmix.encoders._registry.open", refuse)
    for preset, wanted in (("clean-fid", "clean-fid"), ("prdc", None), (None, None)):
        with pytest.raises(LookupError):
            mm.score({"vae": folder / "vae"}, preset=preset, encoder="inception-v3-fid")  # type: ignore[arg-type]
        assert opened.pop()["preset"] == wanted


def test_an_encoder_is_the_function_of_a_run(encoder: mm.encoders.Encoder) -> None:
    def generate(arm: str) -> Callable[[int], Any]:
        return lambda count: list(pixels(arm)[:count])

    run = mm.run({arm: generate(arm) for arm in ARMS}, encoder, mm.Rke(bandwidth=5), budget=12)
    assert run.report.samples == 12
