//! The report: one HTML page, or a file a figure, made from documents and samples. A pure function of them; files, clocks and
//! terminals are left to the commands.
//!
//! Charts are drawn by [kuva](https://docs.rs/kuva). In the page their colours are variables, so that they follow the
//! reader's theme; in files they are those of the light theme.

mod analyses;
mod charts;
mod check;
mod colours;
mod curated;
mod figure;
mod gallery;
mod names;
mod numbers;
mod page;
mod scores;
mod simulated;
mod solved;
mod table;

use modelmix::{Curated, Mixture, Result, Scores, SimulationReport};
use serde::Serialize;

pub use figure::Figure;
pub use gallery::{Gallery, GalleryRow, Image};

/// What a report tells, a section a scenario, in their order.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The heading of the page.
    pub title: String,
    /// The sections.
    pub sections: Vec<Section>,
}

/// One scenario or experiment; whatever is not given is left out.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Section {
    /// Its heading.
    pub name: String,
    /// A sentence or two on what is being compared.
    pub note: Option<String>,
    /// The best mixture.
    pub solve: Option<Mixture>,
    /// Scores of the arms and of the mixture.
    pub score: Option<Scores>,
    /// How the policies did.
    pub simulate: Option<SimulationReport>,
    /// A curated set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub curate: Option<Curated>,
    /// Samples to look at.
    #[serde(skip)]
    pub gallery: Option<Gallery>,
}

impl Report {
    /// The page: one file that needs no network and no script. The documents lie in it as JSON, in the element
    /// `#documents`, and every number of its tables says where in them it is from.
    ///
    /// # Errors
    /// A document whose parts do not fit together, such as a policy with more losses than rounds.
    pub fn html(&self) -> Result<String> {
        check::report(self)?;
        page::render(self)
    }

    /// Every chart as a file for a paper, named after its section: `specialists-loss`.
    ///
    /// # Errors
    /// As [`Report::html`].
    pub fn figures(&self) -> Result<Vec<Figure>> {
        check::report(self)?;
        let mut figures = Vec::new();
        for (section, slug) in self.sections.iter().zip(self.slugs()) {
            let drawn = section.charts();
            figures.extend(drawn.iter().map(|chart| chart.file(&format!("{slug}-{}", chart.name))));
        }
        Ok(figures)
    }

    /// The sections' names as they may stand in files' names and in links; no two the same.
    fn slugs(&self) -> Vec<String> {
        let mut slugs: Vec<String> = Vec::new();
        for section in &self.sections {
            let base = names::slug(&section.name);
            let mut slug = base.clone();
            let mut count = 1;
            while slugs.contains(&slug) {
                count += 1;
                slug = format!("{base}-{count}");
            }
            slugs.push(slug);
        }
        slugs
    }
}

impl Section {
    /// Whether it is about a curated set alone, whose gallery then shows what was chosen.
    pub fn is_curated(&self) -> bool {
        self.curate.is_some() && self.solve.is_none() && self.score.is_none() && self.simulate.is_none()
    }

    /// All charts, in the page's order.
    fn charts(&self) -> Vec<charts::Chart<'_>> {
        let mut charts = Vec::new();
        if let Some(solve) = &self.solve {
            charts.push(charts::weights(solve));
            charts.extend(charts::terms(solve));
            charts.extend(charts::kernel_means(solve));
            charts.extend(charts::gain_kept(solve));
            charts.extend(charts::front(solve));
            charts.extend(charts::sensitivity(solve));
        }
        if let Some(simulate) = &self.simulate {
            charts.extend(charts::loss(simulate));
            charts.extend(charts::kept_loss(simulate));
            charts.extend(charts::regret(simulate));
            charts.push(charts::shares(simulate));
        }
        if let Some(curate) = &self.curate {
            charts.push(charts::chosen(curate));
        }
        charts
    }
}
