//! Where weights are found, and downloads from a server on loopback that cuts connections, lies and redirects.

mod locate;
mod pull;
mod server;

use std::ffi::OsString;
use std::path::Path;

use modelmix_encode::encoders::{Family, Kind, NamedEncoder, Role, Source, WeightsFile};
use modelmix_encode::weights::{Environment, Platform};

const MODEL: WeightsFile = WeightsFile { path: "onnx/model.onnx", role: Role::Model, sha256: None };

/// An encoder of images with these sources.
fn encoder(sources: &'static [Source]) -> NamedEncoder {
    NamedEncoder {
        name: "tiny",
        kind: Kind::Image { family: Family::Clip, size: 8 },
        inputs: &["x"],
        presets: &[],
        sources,
        export: "export it",
    }
}

/// A repository with a model alone.
const ONE_FILE: &[Source] = &[Source::Hub { repository: "owner/name", revision: "main", files: &[MODEL] }];

fn environment(variables: &[(&str, &Path)]) -> Environment {
    let variables = variables.iter().map(|(name, value)| (name.to_string(), OsString::from(value)));
    Environment::new(Platform::Unix, variables)
}
