"""Sums and multiples of terms, and invalid operations."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import modelmix as mm


def test_terms_add_and_scale() -> None:
    assert str(mm.Rke() + mm.Kid()) == "rke + kid"
    assert str(mm.Rke(bandwidth=30) - 0.2 * mm.Precision()) == "rke(bandwidth=30) - 0.2*precision"
    assert str(2 * (mm.Rke() + 0.5 * mm.Density(neighbours=3)) / 4) == "0.5*rke + 0.25*density(neighbours=3)"
    assert str(-mm.Precision() + mm.Mmd(kernel="kid")) == "-precision + mmd(kernel=kid)"
    assert str(np.float32(0.5) * mm.Mmd()) == "0.5*mmd"
    assert str(+mm.Fid() + mm.Vendi(order=0.5, kernel="gaussian", bandwidth=2)) == "fid + vendi(bandwidth=2, order=0.5)"
    assert (
        str(mm.Mmd(kernel="polynomial", scale=0.5, offset=2, degree=4))
        == "mmd(kernel=polynomial, scale=0.5, offset=2, degree=4)"
    )
    assert repr(mm.Kid() - mm.SampleScore("taste")) == "Objective('kid - taste')"


@given(weights=st.lists(st.floats(0.001, 1000) | st.floats(-1000, -0.001), min_size=1, max_size=5))
def test_text_and_terms_agree_to_the_last_bit(weights: list[float]) -> None:
    total = weights[0] * mm.Precision()
    for weight in weights[1:]:
        total = total + weight * mm.Precision()
    again = mm.Objective(str(total))
    assert again == total and hash(again) == hash(total)
    assert [term.weight for term in again._terms] == weights


@pytest.mark.parametrize("bad", [2, "rke", None, [mm.Rke()]])
def test_only_terms_add(bad: Any) -> None:
    with pytest.raises(TypeError):
        mm.Rke() + bad
    with pytest.raises(TypeError):
        mm.Rke() - bad


@pytest.mark.parametrize("bad", ["2", None, mm.Rke()])
def test_only_numbers_scale(bad: Any) -> None:
    with pytest.raises(TypeError):
        mm.Rke() * bad
    with pytest.raises(TypeError):
        mm.Rke() / bad


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: mm.Objective(""), "cannot read"),
        (lambda: mm.Objective("rke + "), "cannot read"),
        (lambda: mm.Rke(kernel="cosin"), "there is no kernel cosin (did you mean cosine?)"),  # type: ignore[arg-type]
        (lambda: mm.Mmd(kernel="kid", bandwidth=2), "the kid kernel has no bandwidth"),
        (lambda: mm.Objective("kid(bandwidth=20)"), "has no bandwidth; write mmd(bandwidth=20) for MMD² with a Gaussian kernel"),
        (lambda: mm.Vendi(order=0), "the Vendi score of order 0 is not smooth"),
        (lambda: mm.Rke(bandwidth=-1), "bandwidth must be a positive number or auto"),
    ],
)  # fmt: skip
def test_invalid_settings_are_rejected_at_once(make: Any, sentence: str) -> None:
    with pytest.raises(ValueError) as raised:
        make()
    assert sentence in str(raised.value)


@pytest.mark.parametrize("factor", [float("nan"), float("inf")])
def test_weights_are_finite(factor: float) -> None:
    with pytest.raises(ValueError, match="a finite number"):
        factor * mm.Rke()
    with pytest.raises(ValueError, match="a finite number"):
        mm.Rke() / (1 / factor)


def test_one_reference_for_all_terms(blobs: Any) -> None:
    one, other = blobs["left"], blobs["right"]
    with pytest.raises(ValueError, match="two different reference"):
        mm.solve(blobs, mm.Mmd(one, bandwidth=2) - mm.Precision(other))
    with pytest.raises(ValueError, match="two different reference"):
        mm.solve(blobs, mm.Mmd(one, bandwidth=2), reference=other)
    alone = mm.solve(blobs, mm.Mmd(one, bandwidth=2) - mm.Precision())
    assert alone == mm.solve(blobs, mm.Mmd(bandwidth=2) - mm.Precision(one))
    assert alone == mm.solve(blobs, mm.Mmd(bandwidth=2) - mm.Precision(), reference=one)


def test_terms_contain_costs_and_scores(blobs: Any) -> None:
    costs = {"left": 1.0, "middle": 2.0, "right": 4.0}
    by_term = mm.solve(blobs, mm.Rke(bandwidth=2) + 0.1 * mm.Cost(costs))
    assert by_term == mm.solve(blobs, "rke(bandwidth=2) + 0.1*cost", costs=costs)
    assert by_term.linear == pytest.approx([0.1, 0.2, 0.4], rel=1e-12)
    taste = {arm: np.linspace(0, cost, len(blobs[arm])) for arm, cost in costs.items()}
    by_score = mm.solve(blobs, mm.Rke(bandwidth=2) - 0.1 * mm.SampleScore("taste", taste))
    assert by_score == mm.solve(blobs, "rke(bandwidth=2) - 0.1*taste", scores={"taste": taste})
    assert by_score.linear == pytest.approx([-0.05, -0.1, -0.2], rel=1e-12)
    with pytest.raises(ValueError, match="did you mean middle"):
        mm.solve(blobs, mm.Cost({"left": 1, "midle": 2, "right": 3}))
    with pytest.raises(ValueError, match="taste"):
        mm.solve(blobs, mm.Rke(bandwidth=2) - mm.SampleScore("taste", {"left": [1.0]}))


def test_a_pickled_objective_contains_its_inputs(blobs: Any) -> None:
    objective = mm.Mmd(blobs["left"], bandwidth=2) - 0.3 * mm.SampleScore("taste", {"left": [1.0]}, range=(0, 1))
    again = pickle.loads(pickle.dumps(objective))
    assert str(again) == str(objective)
    assert np.array_equal(again._terms[0].reference, blobs["left"])
    assert again._terms[1].range == (0, 1)


def test_other_types_are_rejected_as_objectives(blobs: Any) -> None:
    with pytest.raises(TypeError, match="objective is 3, but it must be an objective: text, or terms"):
        mm.solve(blobs, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("policy", "text"),
    [
        (mm.Adaptive(), "adaptive"),
        (mm.Cab(), "cab"),
        (mm.Cab(beta=3, sensitivity=0.1, kappa=0.05), "cab(beta=3, sensitivity=0.1, kappa=0.05)"),
        (mm.Ogd(sensitivity=1e-5), "ogd(sensitivity=0.00001)"),
        (mm.Vanilla(), "vanilla"),
        (mm.Sparse(fee=0.0), "sparse(fee=0)"),
        (mm.Sparse(keep=2, step=0.01), "sparse(keep=2, step=0.01)"),
        (mm.Greedy(), "greedy"),
        (mm.Halving(), "halving"),
        (mm.Halving(rounds=100), "halving(rounds=100)"),
        (mm.Uniform(), "uniform"),
        (mm.Fixed([0.25, 0.75]), "fixed(weights=0.25 0.75)"),
        (mm.Fixed(np.array([1, 3]), tracked=True), "fixed(weights=1 3, tracked=true)"),
        (mm.MixtureOracle(), "mixture-oracle"),
        (mm.OneArmOracle(), "one-arm-oracle"),
    ],
)
def test_policies_are_small_objects(policy: mm.Policy, text: str) -> None:
    assert str(policy) == text
    assert eval(repr(policy), vars(mm)) == policy
    assert pickle.loads(pickle.dumps(policy)) == policy
    assert hash(policy) == hash(pickle.loads(pickle.dumps(policy)))


def test_every_policy_of_the_library_has_an_object() -> None:
    with pytest.raises(ValueError) as raised:
        mm.Session(["a"], mm.Rke(bandwidth=1), policy="nothing")
    names = str(raised.value).split("there are ")[1].split(", ")
    assert len(names) == 11
    from modelmix import policies

    objects = {cls._name for cls in vars(policies).values() if isinstance(cls, type) and issubclass(cls, mm.Policy)}
    assert objects - {""} == set(names)


@pytest.mark.parametrize(
    "make", [lambda: mm.Sparse(), lambda: mm.Sparse(fee=1, keep=2), lambda: mm.Fixed([]), lambda: mm.Halving(rounds=-1)]
)
def test_invalid_policies_are_rejected_at_once(make: Any) -> None:
    with pytest.raises(ValueError, match="cannot read|weights"):
        make()


def test_the_base_class_is_not_a_policy() -> None:
    with pytest.raises(TypeError, match=r"mm\.Adaptive"):
        mm.Policy()
    with pytest.raises(TypeError, match="policy is 0.5, but it must be a policy: text, or an object"):
        mm.Session(["a"], mm.Rke(bandwidth=1), policy=0.5)  # type: ignore[arg-type]
