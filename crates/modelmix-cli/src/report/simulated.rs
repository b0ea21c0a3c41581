//! Parts of the page for `simulate`: how fast each policy finds the mixture, and which arms it samples.

use modelmix::simulate::{PolicyReport, SimulatedFeatures, Spread};
use modelmix::{Gap, SimulationReport};

use super::charts::{self, policies};
use super::names::pointer;
use super::numbers::{self, Digits, brief, percent};
use super::page::{Block, Fact, FigureBlock, Place, TableBlock};
use super::solved::kernel;
use super::table::{Cell, Column, Row, Table};

/// Maximum number of rounds in a table; the JSON contains all.
const MAX_SHOWN_ROUNDS: usize = 12;

/// The best policy, in one sentence.
pub(super) fn sentence(document: &SimulationReport) -> Option<String> {
    let end = |policy: &PolicyReport| policy.loss.mean.last().copied().filter(|loss| loss.is_finite());
    let ends = policies(document).filter_map(|(name, policy)| Some((name, policy, end(policy)?)));
    let (name, policy, loss) = ends.min_by(|a, b| a.2.total_cmp(&b.2))?;
    Some(format!(
        "After {} samples {name} has a loss of {}; optimum {}, best single model {} {}.",
        numbers::count(policy.rounds.last().copied()?),
        brief(loss),
        brief(document.optimum.loss),
        document.best_single.name,
        brief(document.best_single.loss)
    ))
}

pub(super) fn facts(document: &SimulationReport) -> Vec<Fact> {
    let mut facts = vec![Fact::new("Objective", &document.objective)];
    facts.extend(document.kernel.as_ref().map(|found| Fact::new("Kernel", kernel(found))));
    facts.extend(document.until.map(|until| {
        let gap = match until.gap {
            Gap::Share(share) => format!("{} of the gain", percent(share)),
            Gap::Loss(loss) => format!("{} of the loss", brief(loss)),
            other => other.to_string(),
        };
        let confidence = percent(until.confidence);
        Fact::new("Early stopping", format!("{} within {gap} of the optimum at {confidence} confidence", until.of))
    }));
    facts
}

pub(super) fn blocks(document: &SimulationReport, place: &Place) -> Vec<Block> {
    let mut blocks = vec![results_at_end(document, place)];
    blocks.extend(loss(document, place));
    blocks.extend(kept(document, place));
    blocks.extend(regret(document, place));
    blocks.push(shares(document, place));
    blocks.extend(features(document, place));
    blocks
}

/// The error of random features, if sessions held a limited number of samples.
fn features(document: &SimulationReport, place: &Place) -> Option<Block> {
    let found = || policies(document).filter_map(|(name, policy)| policy.features.map(|features| (name, features)));
    let digits =
        |value: fn(&SimulatedFeatures) -> f64| Digits::of(found().map(|(_, one)| value(&one)), std::iter::empty());
    let (entries, biases) = (digits(|one| one.entry), digits(|one| one.loss_bias));
    let rows: Vec<Row> = found()
        .map(|(name, one)| {
            let at = format!("{}/policies/{}/features", place.at, pointer(name));
            let cells = vec![
                Cell::number(one.features as f64, Digits::Decimals(0), format!("{at}/features")),
                Cell::percent(one.estimated, format!("{at}/estimated")),
                Cell::number(one.entry, entries, format!("{at}/entry")),
                Cell::number(one.loss_bias, biases, format!("{at}/loss_bias")),
            ];
            Row::new(name, cells)
        })
        .collect();
    let columns = vec![
        Column::meaning("Features", "number of random features that approximate the kernel"),
        Column::meaning("Estimated", "share of pairs of samples whose kernel value was approximated"),
        Column::meaning("Error in K", "estimated error of the worst entry of K"),
        Column::meaning("Bias of the loss", "estimated bias of the final loss of the mixture, upwards"),
    ];
    let caption = format!(
        "Error of the random features at the end, {}: sessions held a limited number of samples, and random features \
         approximated the kernel between new and evicted ones.",
        seeds(document, "")
    );
    (!rows.is_empty()).then(|| Block::Table(TableBlock::new(caption, Table::new("Policy", columns, rows))))
}

/// "mean of 10 seeds", with the meaning of a band or of ±.
fn seeds(document: &SimulationReport, deviation: &str) -> String {
    match document.seeds {
        1 => "one seed".into(),
        seeds => format!("mean of {seeds} seeds{deviation}"),
    }
}

/// A mean with its standard deviation.
fn spread(spread: &Spread, index: usize, digits: Digits, at: &str) -> Cell {
    let mean = Cell::number(spread.mean[index], digits, format!("{at}/mean/{index}"));
    if spread.std.iter().all(|&std| std == 0.0) {
        return mean;
    }
    mean.within(spread.std[index], digits, format!("{at}/std/{index}"))
}

fn results_at_end(document: &SimulationReport, place: &Place) -> Block {
    let at = &place.at;
    let last = |spread: &Spread| (spread.mean[spread.mean.len() - 1], spread.std[spread.std.len() - 1]);
    let digits = |of: fn(&PolicyReport) -> &Spread, others: &[f64]| {
        let means = policies(document).map(|(_, policy)| last(of(policy)).0).chain(others.iter().copied());
        Digits::of(means, policies(document).map(|(_, policy)| last(of(policy)).1))
    };
    let loss_digits = digits(|policy| &policy.loss, &[document.optimum.loss, document.best_single.loss]);
    let regret_digits = digits(|policy| &policy.regret, &[]);
    let reached = |round: Option<f64>, at: String| match round {
        Some(round) if round.fract() == 0.0 && round >= 0.0 => Cell::count(round as usize, at),
        Some(round) => Cell::number(round, Digits::Decimals(1), at),
        None => Cell::text("not reached"),
    };
    let mut rows: Vec<Row> = Vec::new();
    for (name, policy) in policies(document) {
        let at = format!("{at}/policies/{}", pointer(name));
        let end = policy.rounds.len() - 1;
        let mut cells = vec![
            spread(&policy.loss, end, loss_digits, &format!("{at}/loss")),
            spread(&policy.regret, end, regret_digits, &format!("{at}/regret")),
            reached(policy.reached.percent_90, format!("{at}/reached/90")),
            reached(policy.reached.percent_95, format!("{at}/reached/95")),
            reached(policy.reached.percent_99, format!("{at}/reached/99")),
        ];
        if let Some(stopped) = policy.stopped {
            cells.push(reached(stopped.round, format!("{at}/stopped/round")));
            cells.push(Cell::percent(stopped.share, format!("{at}/stopped/share")));
            cells.push(Cell::percent(stopped.wrong, format!("{at}/stopped/wrong")));
        } else if document.until.is_some() {
            cells.extend([Cell::missing(), Cell::missing(), Cell::missing()]);
        }
        rows.push(Row::new(name, cells));
    }
    let empty = if document.until.is_some() { 7 } else { 4 };
    let bound = |name: String, loss: Cell| {
        Row::apart(name, std::iter::once(loss).chain((0..empty).map(|_| Cell::missing())).collect())
    };
    rows.push(bound("optimum".into(), Cell::number(document.optimum.loss, loss_digits, format!("{at}/optimum/loss"))));
    let mut single = bound(
        format!("best single arm, {}", document.best_single.name),
        Cell::number(document.best_single.loss, loss_digits, format!("{at}/best_single/loss")),
    );
    single.cells[1] = Cell::number(document.gain, regret_digits, format!("{at}/gain"));
    rows.push(single);
    let rounds = policies(document).filter_map(|(_, policy)| policy.rounds.last()).max().copied().unwrap_or(0);
    let mut columns = vec![
        Column::meaning("Loss\u{a0}↓", "loss of the collected samples, lower is better"),
        Column::meaning("Regret\u{a0}↓", "loss of the shares n/t on all recorded samples, minus the optimum"),
        Column::meaning("90% after", "median number of samples from which 90% of the gain is kept"),
        Column::meaning("95% after", "median number of samples from which 95% of the gain is kept"),
        Column::meaning("99% after", "median number of samples from which 99% of the gain is kept"),
    ];
    let mut stopping = "";
    if document.until.is_some() {
        columns.push(Column::meaning("Stopped at", "median number of samples at which a session may stop"));
        columns.push(Column::meaning("Stopped", "share of seeds that may stop before the end"));
        columns.push(Column::meaning("Wrong", "share of seeds that may stop but are outside the tolerance"));
        stopping = " “Stopped”: early stopping, by a session that does not know the optimum.";
    }
    Block::Table(TableBlock::new(
        format!(
            "Policies after {} samples, {}; and the median number of samples from which 90, 95 and 99% of the gain over the \
             best single arm is kept.{stopping}",
            numbers::count(rounds),
            seeds(document, " ± standard deviation")
        ),
        Table::new("Policy", columns, rows),
    ))
}

/// Indices of the rounds in tables: evenly spaced, including the last.
fn chosen(count: usize) -> Vec<usize> {
    let rows = count.min(MAX_SHOWN_ROUNDS);
    (1..=rows).map(|row| row * count / rows - 1).collect()
}

/// A quantity over rounds, one column per policy.
fn over_rounds(document: &SimulationReport, at: &str, field: &str, of: fn(&PolicyReport) -> &Spread) -> Table {
    let means = policies(document).flat_map(|(_, policy)| of(policy).mean.iter().copied());
    let errors = policies(document).flat_map(|(_, policy)| of(policy).std.iter().copied());
    let digits = Digits::of(means, errors);
    let longest = policies(document).map(|(_, policy)| &policy.rounds).max_by_key(|rounds| rounds.len());
    let rounds: Vec<usize> =
        longest.map_or_else(Vec::new, |rounds| chosen(rounds.len()).into_iter().map(|index| rounds[index]).collect());
    let row = |&round: &usize| {
        let cells = policies(document).map(|(name, policy)| {
            let at = format!("{at}/policies/{}/{field}", pointer(name));
            let index = policy.rounds.iter().position(|&other| other == round);
            index.map_or_else(Cell::missing, |index| spread(of(policy), index, digits, &at))
        });
        Row::new(numbers::count(round), cells.collect())
    };
    let columns = policies(document).map(|(name, _)| Column::new(name)).collect();
    Table::new("Samples", columns, rounds.iter().map(row).collect())
}

fn endings(document: &SimulationReport, of: fn(&PolicyReport) -> &Spread) -> String {
    let ends =
        policies(document).filter_map(|(name, policy)| Some(format!("{name} {}", brief(*of(policy).mean.last()?))));
    ends.collect::<Vec<_>>().join(", ")
}

fn loss(document: &SimulationReport, place: &Place) -> Option<Block> {
    let axis = if charts::loss_is_logarithmic(document) { " The vertical axis is logarithmic." } else { "" };
    let chart = charts::loss(document)?;
    let block = FigureBlock::new(
        place,
        &chart,
        format!(
            "Loss of the samples collected so far, {}. The optimum and the best single arm are computed from all recorded \
             samples.{axis}",
            seeds(document, ", bands ± one standard deviation")
        ),
        format!(
            "Line chart of the loss over samples. Final values: {}. Optimum {}, best single arm {}.",
            endings(document, |policy| &policy.loss),
            brief(document.optimum.loss),
            brief(document.best_single.loss)
        ),
    );
    Some(Block::Figure(
        block.with_table("Values of the loss", over_rounds(document, &place.at, "loss", |policy| &policy.loss)),
    ))
}

/// The kept samples, if some were discarded.
fn kept(document: &SimulationReport, place: &Place) -> Option<Block> {
    let chart = charts::kept_loss(document)?;
    let at = &place.at;
    let last = |policy: &PolicyReport| policy.rounds.len() - 1;
    let losses = || policies(document).filter_map(|(_, policy)| policy.kept.as_ref().map(|kept| (policy, &kept.loss)));
    let digits = Digits::of(
        losses().map(|(policy, loss)| loss.mean[last(policy)]).chain([document.optimum.loss]),
        losses().map(|(policy, loss)| loss.std[last(policy)]),
    );
    let row = |(name, policy): (&String, &PolicyReport)| {
        let at = format!("{at}/policies/{}", pointer(name));
        let kept = policy.kept.as_ref()?;
        let (loss, samples) = (&kept.loss, &kept.samples);
        let reached = kept.reached.map_or_else(
            || Cell::text("not reached"),
            |round| {
                Cell::number(round, Digits::Decimals(usize::from(round.fract() != 0.0)), format!("{at}/kept_reached"))
            },
        );
        let cells = vec![
            spread(samples, last(policy), Digits::Decimals(1), &format!("{at}/kept_samples")),
            spread(loss, last(policy), digits, &format!("{at}/kept_loss")),
            reached,
        ];
        Some(Row::new(name, cells))
    };
    let mut rows: Vec<Row> = policies(document).filter_map(row).collect();
    let optimum = Cell::number(document.optimum.loss, digits, format!("{at}/optimum/loss"));
    rows.push(Row::apart("optimum", vec![Cell::missing(), optimum, Cell::missing()]));
    let columns = vec![
        Column::meaning("Kept", "samples kept at the end"),
        Column::meaning("Kept loss\u{a0}↓", "loss of the kept samples, lower is better"),
        Column::meaning(
            "At optimum",
            "median number of samples from which the loss of the kept samples is at most the optimum",
        ),
    ];
    let ends: Vec<String> = losses()
        .zip(&document.order)
        .map(|((policy, loss), name)| format!("{name} {}", brief(loss.mean[last(policy)])))
        .collect();
    let block = FigureBlock::new(
        place,
        &chart,
        format!(
            "Loss of the kept samples by number of collected samples, {}. {}",
            seeds(document, ""),
            document.note.as_deref().unwrap_or_default()
        ),
        format!("Line chart of the loss of the kept samples. Final values: {}.", ends.join(", ")),
    );
    Some(Block::Figure(block.with_table("Values of the kept samples", Table::new("Policy", columns, rows))))
}

fn regret(document: &SimulationReport, place: &Place) -> Option<Block> {
    let chart = charts::regret(document)?;
    let block = FigureBlock::new(
        place,
        &chart,
        format!(
            "Regret: the loss of the collected shares on all recorded samples, minus the optimum, {}. Unlike the loss above, it \
             does not contain the randomness of the samples.",
            seeds(document, "")
        ),
        format!("Line chart of the regret over samples. Final values: {}.", endings(document, |policy| &policy.regret)),
    );
    let table = over_rounds(document, &place.at, "regret", |policy| &policy.regret);
    Some(Block::Figure(block.with_table("Values of the regret", table)))
}

fn shares(document: &SimulationReport, place: &Place) -> Block {
    let at = &place.at;
    let ends = policies(document).map(|(name, policy)| {
        let shares = document.arms.iter().zip(&policy.weights).filter(|(_, weight)| **weight >= 0.05);
        let shares: Vec<String> = shares.map(|(arm, &weight)| format!("{arm} {}", percent(weight))).collect();
        format!("{name}: {}", shares.join(", "))
    });
    let alternative = format!(
        "Stacked areas of the arms’ shares over samples, one panel per policy. Final shares of 5% or more: {}.",
        ends.collect::<Vec<_>>().join("; ")
    );
    let mut rows = Vec::new();
    for (name, policy) in policies(document) {
        let mut picked = chosen(policy.rounds.len());
        let keep = picked.len().div_ceil(3);
        picked = (1..=keep).map(|row| picked[row * picked.len() / keep - 1]).collect();
        for index in picked {
            let at = format!("{at}/policies/{}/shares/{index}", pointer(name));
            let cells = Cell::percents(&policy.shares[index], |arm| format!("{at}/{arm}"));
            rows.push(Row::new(format!("{name}, {}", numbers::count(policy.rounds[index])), cells));
        }
    }
    let optimum = Cell::percents(&document.optimum.weights, |arm| format!("{at}/optimum/weights/{arm}"));
    rows.push(Row::apart("optimum", optimum));
    let columns = document.arms.iter().map(Column::new).collect();
    let chart = charts::shares(document);
    let caption = format!("Share of each arm in the samples collected so far, per policy, {}.", seeds(document, ""));
    Block::Figure(
        FigureBlock::new(place, &chart, caption, alternative)
            .with_table("Values of the shares", Table::new("Policy, samples", columns, rows)),
    )
}
