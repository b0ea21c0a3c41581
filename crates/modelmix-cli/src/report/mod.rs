//! The report: one HTML page, or one file per figure, made from documents and samples. It is a pure function of them; commands
//! handle files, clocks and terminals.
//!
//! [kuva](https://docs.rs/kuva) draws the charts. In the page their colours are CSS variables, so that they follow the
//! reader's theme; files have the colours of the light theme.

mod analyses;
mod charts;
mod check;
mod checks;
mod colours;
mod compare;
mod comparison;
mod curated;
mod figure;
mod gallery;
mod names;
mod numbers;
mod page;
mod provenance;
mod run;
mod scores;
mod simulated;
mod solved;
mod table;
mod weights;

use modelmix::document::{Document, Provenance};
use modelmix::experiment::Check;
use modelmix::{Curated, Mixture, Result, Scores, SimulationReport};
use modelmix_live::status::RunStatus;
use serde::Serialize;

pub use compare::{ChangedSetting, ComparedInput, Comparison, Difference, Overlap, compare};
pub use figure::Figure;
pub use gallery::{Gallery, GalleryRow, Image};

/// Contents of a report, with one section per scenario.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The heading of the page.
    pub title: String,
    /// A sentence below the heading.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// The comparison of two runs, before the sections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparison: Option<Comparison>,
    /// The sections.
    pub sections: Vec<Section>,
}

/// One scenario or experiment; parts that are `None` or empty are omitted.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Section {
    /// Its heading.
    pub name: String,
    /// A short description of the data.
    pub note: Option<String>,
    /// The best mixture.
    pub solve: Option<Mixture>,
    /// Scores of the arms and of the mixture.
    pub score: Option<Scores>,
    /// Results of the policies.
    pub simulate: Option<SimulationReport>,
    /// A curated set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub curate: Option<Curated>,
    /// What a live run has done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunStatus>,
    /// Expected and measured values of an experiment.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checks: Vec<Check>,
    /// Samples to show.
    #[serde(skip)]
    pub gallery: Option<Gallery>,
}

impl Report {
    /// Adds a sentence below the heading.
    #[must_use]
    pub fn with_summary(mut self, summary: String) -> Self {
        self.summary = Some(summary);
        self
    }

    /// Checks that the documents are consistent: they may come from untrusted files.
    ///
    /// # Errors
    /// If a document is inconsistent or a number is out of range.
    pub fn check(&self) -> Result<()> {
        check::report(self)
    }

    /// The page: one file that needs no network. Its only script copies text to the clipboard. The element `#documents` contains the
    /// documents as JSON, and every number of a table has its JSON pointer.
    ///
    /// # Errors
    /// An inconsistent document, such as a policy with more losses than rounds.
    pub fn html(&self) -> Result<String> {
        check::report(self)?;
        page::render(self)
    }

    /// Every chart as a file, named after its section: `specialists-loss`.
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

    /// Unique names of the sections for file names and links.
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
    /// Whether it contains only a curated set, so that the gallery shows the chosen samples.
    pub fn is_curated(&self) -> bool {
        self.curate.is_some() && self.solve.is_none() && self.score.is_none() && self.simulate.is_none()
    }

    /// Whether it has no document of this kind yet and the others are of the same data: the same arms, and the same files if the
    /// documents state them.
    pub fn takes(&self, document: &Document) -> bool {
        let is_free = match document {
            Document::Solve(_) => self.solve.is_none(),
            Document::Score(_) => self.score.is_none(),
            Document::Simulate(_) => self.simulate.is_none(),
            Document::Curate(_) => self.curate.is_none(),
            _ => false,
        };
        is_free && self.documents().iter().all(|own| compare::same_data(own, document))
    }

    /// Its documents, in the order of the page.
    fn documents(&self) -> Vec<Document> {
        let solve = self.solve.clone().map(Document::Solve);
        let score = self.score.clone().map(Document::Score);
        let simulate = self.simulate.clone().map(Document::Simulate);
        let curate = self.curate.clone().map(Document::Curate);
        [solve, score, simulate, curate].into_iter().flatten().collect()
    }

    /// The provenance of its documents, by command.
    fn provenances(&self) -> Vec<(&'static str, &Provenance)> {
        let solve = self.solve.as_ref().and_then(|document| document.provenance.as_ref());
        let score = self.score.as_ref().and_then(|document| document.provenance.as_ref());
        let simulate = self.simulate.as_ref().and_then(|document| document.provenance.as_ref());
        let curate = self.curate.as_ref().and_then(|document| document.provenance.as_ref());
        let all = [("solve", solve), ("score", score), ("simulate", simulate), ("curate", curate)];
        all.into_iter().filter_map(|(command, provenance)| Some((command, provenance?))).collect()
    }

    /// All charts, in the order of the page.
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
