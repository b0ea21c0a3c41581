"""Results from hand-written documents, for tests of their text, conversions and figures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import modelmix as mm

HOSTILE = '<script>alert("1")</script>&amp;\n\x1b[31m\u202e\'$x$'
LONG = "organisation/" + "a-very-long-name-of-a-model-" * 6 + "1.0"


def solve_document() -> dict[str, Any]:
    term = {"term": "mmd", "weight": 1.0, "value": 0.01, "score": 0.5}

    def arm(name: str, weight: float, interval: list[float] | None, score: float, adds: float | None) -> dict[str, Any]:
        return {
            "name": name,
            "samples": 1500,
            "weight": weight,
            "interval": interval,
            "loss": score / 100,
            "score": score,
            "adds": adds,
            "terms": [term],
        }

    kernel = {"name": "gaussian", "bandwidth": 20.0}
    return {
        "command": "solve",
        "version": "0.2.0",
        "objective": "mmd(bandwidth=20)",
        "kernel": kernel,
        "kernels": [kernel],
        "score": {"name": "MMD² ×100", "more_is_better": False},
        "arms": [
            arm("flux", 0.625, [0.55, 0.7], 2.5, 0.0125),
            arm("sdxl", 0.3748, [0.3, 0.45], 11.25, 0.00025),
            arm("pixart", 0.0002, [0.0, 0.0], 120.0, None),
        ],
        "mixture": {"loss": 0.005, "score": 0.5, "gap": 2e-5, "terms": [term]},
        "best_single": {"name": "flux", "loss": 0.025, "score": 2.5},
        "gain": 0.02,
        "gain_interval": None,
        "intervals": "computed",
        "p_value": None,
        "quadratic": [[0.5, 0.1, 0.2], [0.1, 0.6, 0.3], [0.2, 0.3, 0.7]],
        "linear": [-0.1, -0.2, -0.3],
        "constant": 0.25,
    }


SENTENCE = "Mix flux 62%, sdxl 37%: MMD² ×100 0.500 instead of 2.50 with the best single model, flux."


def score_document() -> dict[str, Any]:
    return {
        "command": "score",
        "version": "0.2.0",
        "arms": [
            {
                "name": "flux",
                "samples": 1000,
                "scores": {"rke": 4.0, "kid": 2.0, "kid_std": 0.25, "fid": 30.0},
                "errors": {"rke": 0.125, "fid": None},
            },
            {
                "name": "sdxl",
                "samples": 500,
                "scores": {"rke": 6.0, "kid": 8.0, "kid_std": 0.5, "fid": 10.0},
                "errors": {"rke": 0.25, "fid": 1.5},
            },
        ],
        "mixture": {
            "weights": {"flux": 0.25, "sdxl": 0.75},
            "effective_samples": 640.0,
            "scores": {"rke": 8.0, "kid": 3.5, "kid_std": 0.125, "fid": 10.0},
            "errors": {"rke": 0.5, "fid": 0.75},
        },
        "settings": {"metrics": ["rke", "kid", "fid"], "neighbours": 5},
    }


def simulate_document() -> dict[str, Any]:
    def policy(means: list[float], stds: list[float], weights: list[float], reached: list[Any]) -> dict[str, Any]:
        return {
            "rounds": [10, 100, 1000, 2000],
            "loss": {"mean": means, "std": stds},
            "regret": {"mean": [mean / 10 for mean in means], "std": stds},
            "shares": [weights] * 4,
            "weights": weights,
            "reached": dict(zip(["90", "95", "99"], reached, strict=True)),
        }

    return {
        "command": "simulate",
        "version": "0.2.0",
        "objective": "rke(bandwidth=30)",
        "kernel": {"name": "gaussian", "bandwidth": 30.0},
        "score": {"name": "RKE", "more_is_better": True},
        "arms": ["flux", "sdxl"],
        "seeds": 4,
        "seed": 0,
        "optimum": {"weights": [0.625, 0.375], "loss": 0.25},
        "best_single": {"name": "flux", "loss": 0.5},
        "gain": 0.25,
        "order": ["uniform", "adaptive"],
        "policies": {
            "adaptive": policy([90.0, 0.5, 0.3, 0.26], [5.0, 0.1, 0.05, 0.02], [0.6, 0.4], [90.5, 1204.5, None]),
            "uniform": policy([80.0, 0.6, 0.35, 0.3], [4.0, 0.1, 0.04, 0.01], [0.5, 0.5], [100.0, 200.0, 1500.0]),
        },
    }


def session_document() -> dict[str, Any]:
    def arm(name: str, samples: int, weight: float, loss: float | None, lost: int = 0) -> dict[str, Any]:
        return {
            "name": name,
            "samples": samples,
            "pending": 0,
            "abandoned": lost,
            "share": samples / 40,
            "weight": weight,
            "loss": loss,
        }

    return {
        "policy": "adaptive",
        "objective": "rke(bandwidth=30)",
        "kernels": [{"name": "gaussian", "bandwidth": 30.0}],
        "rounds": 40,
        "samples": 40,
        "arms": [
            arm("flux", 30, 0.7, 0.5),
            arm("sdxl", 10, 0.3, 0.75),
            arm("pixart", 0, 0.0, None, 3),
        ],
        "loss": 0.4,
        "mixture_loss": 0.375,
        "gap": 0.0,
        "bound_on_weights": None,
        "bound_on_shares": None,
        "is_done": False,
        "verdict": None,
        "best_single": 0,
        "form": {
            "quadratic": [[1.0, 2.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, 0.0]],
            "linear": [0.5, 0.25, 0.0],
        },
    }


def worth_document() -> dict[str, Any]:
    """The optional analyses in a document of ``solve``."""

    def subset(weights: dict[str, float], loss: float, kept: float, proved: bool = True) -> dict[str, Any]:
        shares = {"arms": list(weights), "weights": list(weights.values())}
        values = {"loss": loss, "score": 100 * loss, "gain_kept": kept, "proved": proved}
        return {"size": len(weights), **shares, **values}

    def point(multiplier: float | None, weights: list[float], score: float, second: float) -> dict[str, Any]:
        values = {"loss": score / 100, "score": score, "second_loss": -second, "second_score": second}
        return {"multiplier": multiplier, "weights": weights, **values}

    def tried(bandwidth: float, weights: list[float], score: float) -> dict[str, Any]:
        values = {"loss": score / 100, "score": score, "gain": 0.02}
        single = {"best_single": "flux", "best_single_score": score + 2}
        return {"bandwidth": bandwidth, "weights": weights, **values, **single}

    return {
        "subsets": [
            subset({"flux": 1.0}, 0.025, 0.0),
            subset({"flux": 0.625, "sdxl": 0.375}, 0.006, 0.95, proved=False),
            subset({"flux": 0.625, "sdxl": 0.3748, "pixart": 0.0002}, 0.005, 1.0),
        ],
        "cheapest": {
            "arms": ["flux", "sdxl"],
            "weights": [0.25, 0.75],
            "loss": 0.006,
            "score": 0.6,
            "above_best": 0.001,
            "within": 0.001,
            "samples": 1000.0,
            "fee": 20.0,
            "cost": 12.5,
            "total": 32.5,
            "total_of_best": 12_345.6,
            "gap": 0.0,
        },
        "front": {
            "objective": "-precision",
            "score": {"name": "precision", "more_is_better": True},
            "points": [
                point(0.0, [0.625, 0.3748, 0.0002], 0.5, 0.75),
                point(0.25, [0.8, 0.2, 0.0], 1.5, 0.875),
                point(None, [1.0, 0.0, 0.0], 2.5, 0.9),
            ],
            "exact": True,
        },
        "sensitivity": {
            "in_use": 20.0,
            "points": [
                tried(10.0, [0.75, 0.25, 0.0], 0.25),
                tried(20.0, [0.625, 0.3748, 0.0002], 0.5),
                tried(40.0, [0.5, 0.5, 0.0], 1.0),
            ],
            "largest_change": 0.125,
            "arm": "flux",
            "at": 10.0,
            "verdict": "The largest change of a weight is 12.5 percentage points: the answer depends on it somewhat.",
        },
    }


def curate_document() -> dict[str, Any]:
    term = {"term": "rke", "weight": 1.0, "value": 0.05, "score": 20.0}
    free = {"proportions": "free", "before": 0.06, "loss": 0.05, "exchanges": 7, "settled": True}
    arms = [("flux", 0.625, 3), ("sdxl", 0.375, 1), ("pixart", 0.0, 0)]
    return {
        "command": "curate",
        "version": "0.2.0",
        "objective": "rke(bandwidth=30)",
        "kernels": [{"name": "gaussian", "bandwidth": 30.0}],
        "score": {"name": "RKE", "more_is_better": True},
        "note": NOTE,
        "count": 4,
        "candidates": 40,
        "seed": 0,
        "proportions": "free",
        "arms": [
            {"name": name, "samples": 1500, "weight": weight, "chosen": chosen, "share": chosen / 4}
            for name, weight, chosen in arms
        ],
        "set": {"loss": 0.05, "unbiased_loss": 0.04, "score": 20.0, "terms": [term]},
        "mixture": {"loss": 0.125, "score": 8.0, "gap": 0.0},
        "random": {"draws": 20, "loss": [0.25, 0.01], "score": [4.0, 0.125]},
        "tried": [free],
        "rows": [{"arm": arm, "row": row} for arm, row in [("flux", 7), ("sdxl", 1499), ("flux", 0), ("flux", 12)]],
    }


NOTE = "A curated set is no longer an i.i.d. mixture."
CHOSE = "Chose 4 of 40 rows: a loss of 0.0500 instead of 0.250 for rows drawn at random."
CERTAINTY = "The best mixture beats every single model (p < 0.001)."


def hand_mixture(**changes: Any) -> mm.Mixture:
    return replace(mm.Mixture._read(solve_document(), SENTENCE), **changes)


def hand_scores(**changes: Any) -> mm.Scores:
    return replace(mm.Scores._read(score_document()), **changes)


def hand_simulation(**changes: Any) -> mm.Simulation:
    return replace(mm.Simulation._read(simulate_document()), **changes)


def hand_session(**changes: Any) -> mm.SessionReport:
    return replace(mm.SessionReport._read(session_document()), **changes)


def hand_asked() -> mm.Mixture:
    """A mixture with all analyses."""
    return mm.Mixture._read({**solve_document(), **worth_document()}, SENTENCE, CERTAINTY)


def hand_warned() -> mm.Mixture:
    """A mixture with bounds and a warning about its objective."""
    objective = {"warnings": ["the objective minimises precision, but higher is better"], "bounded": True}
    return mm.Mixture._read({**solve_document(), **objective}, SENTENCE)


def hand_curated() -> mm.Curated:
    return mm.Curated._read(curate_document(), CHOSE, "chosen by herding")


def hand_kept() -> mm.SessionReport:
    """A session that keeps some of its samples, has an arm with drift, and may stop."""
    document = session_document()
    for arm, kept in zip(document["arms"], (12, 8, 0), strict=True):
        arm["kept"] = kept
    document["arms"][1]["changed"] = 31
    document |= {"kept": 20, "kept_loss": 0.25, "note": NOTE, "is_done": True, "bound_on_weights": 0.0125}
    return mm.SessionReport._read(document)


def hand_stopped() -> mm.Simulation:
    """Policies whose sessions kept some of their samples, and one of which stopped early."""
    document = simulate_document()
    document |= {"until": {"gap": "5%", "confidence": 0.95, "of": "weights"}, "select": "better-half", "note": NOTE}
    for name, moment in (("adaptive", 550.0), ("uniform", None)):
        document["policies"][name] |= {
            "stopped": {"round": moment, "share": 0.75 if moment else 0.25, "wrong": 0.0},
            "kept_loss": {"mean": [60.0, 0.4, 0.2, 0.125], "std": [1.0, 0.1, 0.01, 0.005]},
            "kept_samples": {"mean": [6.0, 50.0, 480.0, 970.4], "std": [0.5, 1.0, 2.0, 3.0]},
        }
    document["policies"]["adaptive"]["kept_reached"] = 750.5
    return mm.Simulation._read(document)


def hand_run() -> mm.Run:
    failure = mm.Failure(7, "pixart", 1, "TimeoutError: late", "Traceback …", TimeoutError("late"))
    return mm.Run(
        report=hand_session(),
        pulls=43,
        calls={"flux": 30, "sdxl": 10, "pixart": 3},
        failures={"flux": [], "sdxl": [], "pixart": [failure]},
        samples={"flux": [1, 2], "sdxl": [], "pixart": []},
        resumed=12,
        session=mm.Session(["flux", "sdxl", "pixart"], mm.Rke(bandwidth=30)),
    )


def renamed(arms: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arms, the first two with names that are difficult for tables and HTML."""
    return (replace(arms[0], name=HOSTILE), replace(arms[1], name=LONG), *arms[2:])


HANDS: dict[str, Callable[[], Any]] = {
    "mixture": hand_mixture,
    "scores": hand_scores,
    "simulation": hand_simulation,
    "session": hand_session,
    "run": hand_run,
    "subsets": lambda: hand_asked().subsets,
    "cheapest": lambda: hand_asked().cheapest,
    "front": lambda: hand_asked().front,
    "sensitivity": lambda: hand_asked().sensitivity,
    "curated": hand_curated,
    "kept": hand_kept,
    "stopped": hand_stopped,
}
