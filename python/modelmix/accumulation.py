"""Sums over parts of data that is larger than memory or than a machine: accumulators, and their plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from . import _check, _modelmix
from ._accumulator_bytes import whole_reference
from ._accumulator_pairs import Block, PairSums
from ._accumulator_plan import AccumulatorPlan, MethodName, PlanSettings, plan_data, solve_settings
from ._arguments import checked
from ._compute import compute
from ._files import Rows, Values, recorded, score_values
from ._problem import problem
from ._provenance import add_inputs
from ._warnings import warn
from .objectives import Objective
from .results import Mixture

__all__ = ["Accumulator", "AccumulatorPlan", "Block"]


def __dir__() -> list[str]:
    return __all__


@checked
class Accumulator(PairSums):
    """Sums over rows of any number of arms and of a reference. Accumulators merge, with the same bits in any order.

    Two passes: a survey (:meth:`survey`) counts and samples rows; :meth:`plan` decides from it what is summed; accumulators of the plan
    sum in the second pass. Parts of the rows may be summed anywhere, and their accumulators are pickled or written as bytes. The
    file format is that of ``modelmix accumulate``.

    Parameters
    ----------
    plan
        What is summed.
    reference
        The whole reference, which only :class:`Precision` and :class:`Density` need; the one that the plan was made with.
    threads
        The number of threads; all cores if ``None``.
    engine, gpu_memory
        Where to compute, and the maximum GPU memory, as in :func:`modelmix.solve`.

    Raises
    ------
    TypeError
        If an argument has the wrong type.
    ValueError
        If the reference is missing or another one.

    Examples
    --------
    >>> import modelmix as mm
    >>> arms = mm.load("data/fashion/specialists.npz")
    >>> survey = mm.Accumulator.survey()
    >>> for name, rows in arms.items():
    ...     survey.update(name, rows)
    >>> plan = survey.plan(mm.Rke(bandwidth=20), method="features")
    >>> first, second = mm.Accumulator(plan), mm.Accumulator(plan)
    >>> for name, rows in arms.items():
    ...     first.update(name, rows[:700])
    ...     second.update(name, rows[700:])
    >>> first.merge(second)
    >>> best = first.solve()
    >>> sum(best.weights.values()) > 0.999, best.approximation["random_features"]
    (True, 4096)
    """

    def __init__(
        self,
        plan: AccumulatorPlan,
        reference: Rows | None = None,
        *,
        threads: int | None = None,
        engine: str = "auto",
        gpu_memory: int | str | None = None,
    ) -> None:
        data, where = plan_data(plan), compute(threads, engine, gpu_memory)
        self._inner = _modelmix.Accumulator.planned(data, whole_reference(reference), where)

    @classmethod
    @checked
    def survey(
        cls, *, seed: int = 0, sample: int = 2000, expected_rows: int | None = None, scores: Sequence[str] = ()
    ) -> Accumulator:
        """Start a survey, which counts and samples rows.

        Parameters
        ----------
        seed
            The random seed of the sample and of random features.
        sample
            The number of rows per arm that are sampled: the source of bandwidths, intervals and errors.
        expected_rows
            The number of rows of the smallest arm, if known: parts of the data then keep few rows each.
        scores
            The names of the scores that every row has.

        Returns
        -------
        Accumulator
            An empty survey.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If a number is out of its range.

        Examples
        --------
        >>> import modelmix as mm
        >>> survey = mm.Accumulator.survey(scores=["reward"])
        >>> survey.update("flux", [[0.0, 1.0], [1.0, 2.0]], {"reward": [0.5, 0.7]})
        >>> survey.counts
        {'flux': 2}
        """
        names, rows = _check.name_list("scores", scores), _check.whole_or_none("expected_rows", expected_rows, 1)
        return cls._around(
            _modelmix.Accumulator.survey(_check.seed(seed), _check.whole("sample", sample, 2), rows, names)
        )

    @checked
    def empty(self) -> Accumulator:
        """Return an empty accumulator of the same plan; both share what the plan was prepared with.

        Returns
        -------
        Accumulator
            No rows.

        Raises
        ------
        TypeError
            If there is an argument.

        Examples
        --------
        >>> import modelmix as mm
        >>> mm.Accumulator.survey().empty().counts
        {}
        """
        return Accumulator._around(self._inner.empty())

    @checked
    def update(self, arm: str, rows: Rows, scores: Mapping[str, Values] | None = None) -> None:
        """Add rows of an arm. 32-bit floats in C order are not copied.

        Parameters
        ----------
        arm
            The name of the arm.
        rows
            Features, one row per sample: an array, or a file.
        scores
            One value per row of every score that the survey names.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If the width is another one, a value is not finite, or a score is missing; nothing is added then.

        Examples
        --------
        >>> import modelmix as mm
        >>> survey = mm.Accumulator.survey()
        >>> survey.update("flux", [[0.0, float("nan")]])
        Traceback (most recent call last):
        ...
        ValueError: arm flux: row 0, column 1 is NaN, but features must be finite 32-bit floats; remove the row or repair the encoder (rows and columns are counted from 0)
        """
        name = _check.arm_name(arm)
        given = {} if scores is None else _check.mapping("scores", scores, 'values by name, such as {"reward": […]}')
        values = {_check.text("a name in scores", key): score_values(f"score {key}", one) for key, one in given.items()}
        self._inner.update(name, recorded(f"arm {name}", rows), values)

    @checked
    def update_reference(self, rows: Rows) -> None:
        """Add rows of the reference.

        Parameters
        ----------
        rows
            Features of real samples, one row per sample: an array, or a file.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If the width is another one, or a value is not finite; nothing is added then.

        Examples
        --------
        >>> import modelmix as mm
        >>> survey = mm.Accumulator.survey()
        >>> survey.update_reference("data/fashion/reference.npy")
        >>> survey.reference_count
        2000
        """
        self._inner.update(None, recorded("the reference", rows), {})

    @checked
    def finish_shard(self, name: str, rows: int) -> None:
        """State that all rows of a shard are included, so that it is not merged twice.

        Parameters
        ----------
        name
            The name of the shard, such as its file and row group.
        rows
            The number of its rows.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If a shard of this name is included already.

        Examples
        --------
        >>> import modelmix as mm
        >>> survey = mm.Accumulator.survey()
        >>> survey.finish_shard("part-0", 1000)
        >>> survey.shards
        {'part-0': 1000}
        """
        self._inner.finish_shard(_check.text("name", name), _check.whole("rows", rows))

    @checked
    def merge(self, other: Accumulator) -> None:
        """Add the sums of another accumulator of the same plan.

        Parameters
        ----------
        other
            Sums of other rows.

        Raises
        ------
        TypeError
            If ``other`` is no accumulator.
        ValueError
            If plans or widths differ, or a shard is in both; nothing is added then.

        Examples
        --------
        >>> import modelmix as mm
        >>> one, other = mm.Accumulator.survey(), mm.Accumulator.survey()
        >>> one.update("flux", [[0.0], [1.0]])
        >>> other.update("flux", [[2.0]])
        >>> one.merge(other)
        >>> one.counts
        {'flux': 3}
        """
        if not isinstance(other, Accumulator):
            raise _check.wrong_type("other", other, "an accumulator; read bytes with mm.Accumulator.from_bytes")
        self._inner.merge(other._inner)

    @checked
    def plan(
        self,
        objective: Objective | str | None = None,
        *,
        reference: Rows | None = None,
        method: MethodName | None = None,
        random_features: int | None = None,
        error: float | None = None,
        costs: Mapping[str, float] | None = None,
        arms: Sequence[str] | None = None,
        memory: int | str | None = None,
        threads: int | None = None,
    ) -> AccumulatorPlan:
        """Plan the sums for an objective, from a survey of all rows.

        Bandwidths are found by the median rule from the sampled rows, of the reference if there is one.

        Parameters
        ----------
        objective
            The objective to minimise, as in :func:`modelmix.solve`. If ``None``, ``mmd`` with rows of the reference and ``rke`` without.
        reference
            The whole reference, which only :class:`Precision` and :class:`Density` need, unless the terms contain it. Its rows are
            also added to the survey, with :meth:`update_reference`.
        method
            What is done with the rows; ``None`` chooses: ``"rows"`` if all of them are in the sample, otherwise ``"features"`` or,
            for kernels without random features, ``"sample"``. ``"pairs"`` sums exactly over all pairs of rows, larger than
            memory, with :meth:`update_pairs`.
        random_features
            The number of random Fourier features per Gaussian kernel; 4096 if neither it nor ``error`` is given. Only the method
            ``"features"`` has them.
        error
            The largest standard error of the gain that random features or a sample may cause; chooses the number of random features,
            unless it is given.
        costs
            The price per sample, by arm, unless the objective contains it.
        arms
            The arms in the order of the result; by name if ``None``.
        memory
            The largest size of an accumulator: bytes, or text such as ``"1GB"``.
        threads
            The number of threads, for the estimate of the time; all cores if ``None``.

        Returns
        -------
        AccumulatorPlan
            What is summed, and what it costs.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If the objective cannot be accumulated, an input is missing, or the error or the memory cannot be met.

        Examples
        --------
        >>> import modelmix as mm
        >>> survey = mm.Accumulator.survey()
        >>> for name, rows in mm.load("data/fashion/specialists.npz").items():
        ...     survey.update(name, rows)
        >>> survey.plan(mm.Rke(bandwidth=20)).method
        'rows'
        """
        given = problem(objective, reference=reference, costs=costs)
        if given.reference is not None and self.reference_count == 0:
            raise ValueError(
                "the survey has no rows of the reference; add them with update_reference before the plan is made"
            )
        settings = PlanSettings.of(
            method=method,
            random_features=random_features,
            error=error,
            costs=given.costs,
            arms=arms,
            memory=memory,
            threads=threads,
        )
        planned = self._inner.plan(given.objective, given.reference, settings)
        warn(planned.pop("warnings"))
        return AccumulatorPlan(**planned)

    @checked
    def with_plan(self, plan: AccumulatorPlan, reference: Rows | None = None) -> Accumulator:
        """Return the rows of a survey with a plan that needs no second pass.

        Parameters
        ----------
        plan
            A plan with the method ``"rows"`` or ``"sample"``.
        reference
            The whole reference, as in :class:`Accumulator`.

        Returns
        -------
        Accumulator
            Sums that can be solved.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If the plan needs a second pass.

        Examples
        --------
        >>> import modelmix as mm
        >>> survey = mm.Accumulator.survey()
        >>> survey.update("one", [[0.0], [1.0]])
        >>> survey.update("two", [[5.0], [7.0]])
        >>> survey.with_plan(survey.plan("rke")).solve().weights["two"] > 0.5
        True
        """
        return Accumulator._around(self._inner.with_plan(plan_data(plan), whole_reference(reference)))

    @checked
    def solve(
        self,
        *,
        floor: Mapping[str, float] | None = None,
        cap: Mapping[str, float] | None = None,
        intervals: bool = True,
    ) -> Mixture:
        """Find the best mixture of the arms.

        It warns if there are fewer or more rows than in the survey: parts are missing, or count twice.

        Parameters
        ----------
        floor, cap
            The smallest and the largest weight of an arm, by arm.
        intervals
            Whether to compute confidence intervals and the p-value.

        Returns
        -------
        Mixture
            The weights, as :func:`modelmix.solve` returns them; ``Mixture.approximation`` says what was sampled or random.

        Raises
        ------
        TypeError
            If an argument has the wrong type.
        ValueError
            If it is a survey, or an arm has fewer than two rows.

        Examples
        --------
        >>> import modelmix as mm
        >>> mm.Accumulator.survey().solve()
        Traceback (most recent call last):
        ...
        ValueError: a mixture needs rows of at least one arm; the accumulator has none
        """
        document, sentence, certainty = self._inner.solve(*solve_settings(floor, cap, intervals))
        warn(self._inner.warnings())
        reference = object() if self.reference_count else None
        return Mixture._read(add_inputs(document, dict.fromkeys(self.counts), reference), sentence, certainty)

    @checked
    def scores(self) -> dict[str, dict[str, float]]:
        """Return the score of every term of the objective, for each arm alone.

        Returns
        -------
        dict
            Scores by arm and term.

        Raises
        ------
        ValueError
            As :meth:`solve`.

        Examples
        --------
        >>> import modelmix as mm
        >>> survey = mm.Accumulator.survey()
        >>> survey.update("one", [[0.0], [2.0]])
        >>> {arm: list(terms) for arm, terms in survey.with_plan(survey.plan("rke(bandwidth=1)")).scores().items()}
        {'one': ['rke(bandwidth=1)']}
        """
        return {arm: dict(terms) for arm, terms in self._inner.scores()}
