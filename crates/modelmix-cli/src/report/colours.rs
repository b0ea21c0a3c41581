//! Colours of the page and its charts: one set per theme, distinguishable with any colour vision, each with a contrast of at least
//! 3 to the background.

/// Number of series with their own colour; further series have other strokes or are pooled.
pub(super) const SERIES_COLOURS: usize = 8;

/// The colours of one theme.
pub(super) struct Colours {
    paper: &'static str,
    panel: &'static str,
    ink: &'static str,
    quiet: &'static str,
    grid: &'static str,
    accent: &'static str,
    heat: &'static str,
    rest: &'static str,
    series: [&'static str; SERIES_COLOURS],
}

/// The light theme, also for print and files.
pub(super) const LIGHT: Colours = Colours {
    paper: "#fdfdfb",
    panel: "#f4f4ef",
    ink: "#1f2023",
    quiet: "#5c5d60",
    grid: "#e2e2dc",
    accent: "#1659a1",
    heat: "#6aa9dc",
    rest: "#b4b4ae",
    series: ["#1659a1", "#be3a11", "#38937a", "#8e415d", "#af8d0b", "#2f9ccf", "#260e51", "#6b2000"],
};

/// The dark theme, with the hues of the light theme in the same order.
pub(super) const DARK: Colours = Colours {
    paper: "#15171a",
    panel: "#1e2125",
    ink: "#e6e6e2",
    quiet: "#a3a5a8",
    grid: "#33363b",
    accent: "#7ab6ee",
    heat: "#2a6aa5",
    rest: "#6a6c70",
    series: ["#1f74c4", "#db710f", "#37a46f", "#de97bf", "#f0e442", "#b5defa", "#a87be0", "#955633"],
};

impl Colours {
    /// As declarations of CSS variables.
    pub(super) fn css(&self) -> String {
        let mut css = format!(
            "--paper:{};--panel:{};--ink:{};--quiet:{};--grid:{};--accent:{};--heat:{};--rest:{};",
            self.paper, self.panel, self.ink, self.quiet, self.grid, self.accent, self.heat, self.rest
        );
        for (index, colour) in self.series.iter().enumerate() {
            css += &format!("--series-{index}:{colour};");
        }
        css
    }
}

/// Where a chart is drawn: in the page, which follows the reader's theme, or in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    Page,
    File,
}

impl Medium {
    fn colour(self, variable: &str, value: &str) -> String {
        match self {
            Medium::Page => format!("var(--{variable})"),
            Medium::File => value.into(),
        }
    }

    pub(super) fn ink(self) -> String {
        self.colour("ink", LIGHT.ink)
    }

    pub(super) fn quiet(self) -> String {
        self.colour("quiet", LIGHT.quiet)
    }

    pub(super) fn grid(self) -> String {
        self.colour("grid", LIGHT.grid)
    }

    pub(super) fn background(self) -> String {
        match self {
            Medium::Page => "none".into(),
            Medium::File => "#ffffff".into(),
        }
    }

    /// The colour of everything without its own.
    pub(super) fn rest(self) -> String {
        self.colour("rest", LIGHT.rest)
    }

    pub(super) fn series(self, index: usize) -> String {
        let index = index % SERIES_COLOURS;
        self.colour(&format!("series-{index}"), LIGHT.series[index])
    }

    /// Interpolates between the panel's colour (0) and the strongest colour of a heat map (1), on which text stays legible.
    pub(super) fn heat(self, share: f64) -> String {
        let percent = (100.0 * share.clamp(0.0, 1.0)).round();
        match self {
            Medium::Page => format!("color-mix(in srgb, var(--heat) {percent}%, var(--panel))"),
            Medium::File => mix(LIGHT.panel, LIGHT.heat, percent / 100.0),
        }
    }
}

fn mix(from: &str, to: &str, share: f64) -> String {
    let channel = |colour: &str, at: usize| u8::from_str_radix(&colour[at..at + 2], 16).map_or(0.0, f64::from);
    let part = |at| (channel(from, at) * (1.0 - share) + channel(to, at) * share).round() as u8;
    format!("#{:02x}{:02x}{:02x}", part(1), part(3), part(5))
}
