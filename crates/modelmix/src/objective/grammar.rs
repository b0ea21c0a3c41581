//! Objectives as text: `rke(bandwidth=30) - 0.2*precision` and back.

use std::fmt;
use std::str::FromStr;

use super::{DEFAULT_NEIGHBOURS, Measure, Objective, Term, check_order, kid_has_one_kernel};
use crate::error::{Error, Result};
use crate::kernel::KernelSpec;
use crate::text::{Call, Reader};

impl Objective {
    /// Parses `[-] [number*] term [± [number*] term …]`, where a term is a name with optional settings in parentheses. A name
    /// that is not a measure is a caller's score.
    ///
    /// # Errors
    /// A syntax error, with the expected token and its position.
    pub fn parse(text: &str) -> Result<Self> {
        let mut reader = Reader::new(text);
        let mut terms = Vec::new();
        while terms.is_empty() || !reader.is_done() {
            let sign = match (reader.take('-'), terms.is_empty()) {
                (true, _) => -1.0,
                (false, true) => 1.0,
                (false, false) if reader.take('+') => 1.0,
                _ => return Err(reader.error(reader.at(), "\"+\" or \"-\" is expected between terms")),
            };
            let factor = reader.number()?;
            if factor.is_some() && !reader.take('*') {
                return Err(reader.error(reader.at(), "\"*\" is expected after a number, as in 0.2*precision"));
            }
            let measure = Self::measure(&mut reader)?;
            let weight = sign * factor.unwrap_or(1.0);
            terms.push(Term { weight, measure });
        }
        Ok(Self::sum(terms))
    }

    fn measure(reader: &mut Reader<'_>) -> Result<Measure> {
        let mut call = reader.call("a term")?;
        let kernel = ["kernel", "bandwidth", "scale", "offset", "degree"];
        let neighbours = |call: &mut Call<'_>| -> Result<usize> {
            Ok(call.count(reader, "neighbours")?.unwrap_or(DEFAULT_NEIGHBOURS))
        };
        let (measure, known): (Measure, &[&str]) = match call.name {
            "rke" => (Measure::Rke { kernel: KernelSpec::read(reader, &mut call)? }, &kernel),
            "mmd" => (Measure::Mmd { kernel: KernelSpec::read(reader, &mut call)? }, &kernel),
            "kid" => match KernelSpec::read(reader, &mut call)? {
                Some(spec) => return Err(reader.error(call.at, kid_has_one_kernel(&spec))),
                None => (Measure::Kid, &[]),
            },
            "fid" => (Measure::Fid, &[]),
            "vendi" => (Self::read_vendi(reader, &mut call)?, &["order", "kernel", "bandwidth"]),
            "precision" => (Measure::Precision { neighbours: neighbours(&mut call)? }, &["neighbours"]),
            "density" => (Measure::Density { neighbours: neighbours(&mut call)? }, &["neighbours"]),
            "cost" => (Measure::Cost, &[]),
            name => (Measure::Score { name: name.into() }, &[]),
        };
        call.finish(reader, known)?;
        Ok(measure)
    }

    fn read_vendi(reader: &Reader<'_>, call: &mut Call<'_>) -> Result<Measure> {
        let order = call.argument("order").map(|(value, at)| {
            let order =
                value.parse().map_err(|_| reader.error(at, format!("order must be a number, not \"{value}\"")))?;
            check_order(order).map(|()| order).map_err(|error| reader.error(at, error.to_string()))
        });
        Ok(Measure::Vendi {
            order: order.transpose()?.unwrap_or(1.0),
            kernel: KernelSpec::read(reader, call)?.unwrap_or(KernelSpec::Cosine),
        })
    }
}

impl FromStr for Objective {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl TryFrom<String> for Objective {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        Self::parse(&text)
    }
}

impl From<Objective> for String {
    fn from(objective: Objective) -> Self {
        objective.to_string()
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name())?;
        match self {
            Measure::Precision { neighbours } | Measure::Density { neighbours }
                if *neighbours != DEFAULT_NEIGHBOURS =>
            {
                write!(f, "(neighbours={neighbours})")
            }
            Measure::Rke { kernel: Some(kernel) } | Measure::Mmd { kernel: Some(kernel) } => write!(f, "({kernel})"),
            Measure::Vendi { order, kernel } => {
                let kernel = (*kernel != KernelSpec::Cosine).then(|| kernel.to_string());
                let order = (*order != 1.0).then(|| format!("order={order}"));
                let settings: Vec<String> = kernel.into_iter().chain(order).collect();
                if settings.is_empty() { Ok(()) } else { write!(f, "({})", settings.join(", ")) }
            }
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, Term { weight, measure }) in self.terms.iter().enumerate() {
            let negative = weight.is_sign_negative();
            f.write_str(match (index, negative) {
                (0, false) => "",
                (0, true) => "-",
                (_, false) => " + ",
                (_, true) => " - ",
            })?;
            if weight.abs() != 1.0 {
                write!(f, "{}*", weight.abs())?;
            }
            write!(f, "{measure}")?;
        }
        Ok(())
    }
}
