//! The sources of the kernels and their variants.

use std::path::Path;

use crate::compile;
use crate::options::Tier;

const COMMON: &str = include_str!("../kernels/common.cuh");
const FUNCTION: &str = include_str!("../kernels/function.cuh");
const MMA: &str = include_str!("../kernels/mma.cuh");
const PREPARE: &str = include_str!("../kernels/prepare.cu");
const PAIRS_SM90: &str = include_str!("../kernels/pairs_sm90.cu");
const PAIRS_MMA: &str = include_str!("../kernels/pairs_mma.cu");
const TILES: &str = include_str!("../kernels/tiles.cu");
const ROWS: &str = include_str!("../kernels/rows.cu");
const DOUBLE: &str = include_str!("../kernels/double.cu");
const NEAR: &str = include_str!("../kernels/near.cu");

/// How features are split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// hi and lo in half precision.
    Halves,
    /// hi in half precision; hi and lo in e4m3 for the two small products.
    Mixed,
}

/// The function that the fused kernels apply to products.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Map {
    Gaussian,
    /// (γ x·y + c)^degree.
    Power {
        degree: u32,
    },
}

/// A module: a source with its macro definitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Module {
    /// Centres, split, terms and folds of the fused kernels.
    Prepare(Form, Map),
    /// The fused kernel with wgmma.
    PairsWgmma(Form, Map),
    /// The fused kernel with mma.sync; its form is [`Form::Halves`].
    PairsMma(Map),
    /// Nearest rows by products in half precision.
    Near,
    /// Exact kernels on tiles of pairs.
    Tiles,
    /// Sums in double precision on tensor cores.
    Double,
    /// New rows against rows held; changes of resident rows.
    Rows,
}

impl Module {
    /// Machine code for an architecture.
    pub(crate) fn compile(self, architecture: &str, folder: Option<&Path>) -> Result<Vec<u8>, String> {
        let defines = |form: Form, map: Map| {
            let (map, degree) = match map {
                Map::Gaussian => (0, 1),
                Map::Power { degree } => (1, degree),
            };
            let form = match form {
                Form::Halves => 0,
                Form::Mixed => 1,
            };
            vec![format!("FORM={form}"), format!("MAP={map}"), format!("DEGREE={degree}")]
        };
        let (name, parts, defines) = match self {
            Module::Prepare(form, map) => ("prepare.cu", [COMMON, "", PREPARE], defines(form, map)),
            Module::PairsWgmma(form, map) => ("pairs_sm90.cu", [COMMON, "", PAIRS_SM90], defines(form, map)),
            Module::PairsMma(map) => ("pairs_mma.cu", [COMMON, MMA, PAIRS_MMA], defines(Form::Halves, map)),
            Module::Near => ("near.cu", [COMMON, MMA, NEAR], Vec::new()),
            Module::Tiles => ("tiles.cu", [FUNCTION, "", TILES], Vec::new()),
            Module::Double => ("double.cu", [FUNCTION, TILES, DOUBLE], Vec::new()),
            Module::Rows => ("rows.cu", [FUNCTION, "", ROWS], Vec::new()),
        };
        compile::module(name, &parts.concat(), &defines, architecture, folder)
    }

    /// The fused kernel and its preparation for a tier.
    pub(crate) fn fused(tier: Tier, form: Form, map: Map) -> [Self; 2] {
        let pairs = match tier {
            Tier::Wgmma => Module::PairsWgmma(form, map),
            Tier::Mma => Module::PairsMma(map),
        };
        [Module::Prepare(form, map), pairs]
    }
}

/// Compiles the modules of common kernels for an architecture, without a GPU, and returns their names and sizes; `None` if
/// there is no compiler. With a folder, they are stored there for later processes, on this or another machine with the same
/// version of NVRTC.
#[doc(hidden)]
pub fn compile_all(architecture: &str, folder: Option<&Path>) -> Option<Result<Vec<(String, usize)>, String>> {
    if !compile::is_available() {
        return None;
    }
    let mut modules = vec![Module::Tiles, Module::Rows, Module::Near, Module::Double];
    let maps = [1, 2, 3, 4, 6].map(|degree| Map::Power { degree });
    for map in [Map::Gaussian].into_iter().chain(maps) {
        modules.extend(Module::fused(Tier::Mma, Form::Halves, map));
        if architecture == "sm_90a" {
            modules.extend(Module::fused(Tier::Wgmma, Form::Mixed, map));
            modules.push(Module::PairsWgmma(Form::Halves, map));
        }
    }
    let compile = |module: &Module| Ok((format!("{module:?}"), module.compile(architecture, folder)?.len()));
    Some(modules.iter().map(compile).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// NVRTC needs no GPU, so that every kernel is compiled wherever it is installed.
    #[test]
    fn kernels_compile() {
        for architecture in ["sm_80", "sm_89", "sm_90a"] {
            match compile_all(architecture, None) {
                None => {
                    println!("skipped: the NVRTC library is not installed");
                    return;
                }
                Some(Ok(modules)) => assert!(modules.iter().all(|(_, size)| *size > 1000), "{modules:?}"),
                Some(Err(problem)) => panic!("{architecture}: {problem}"),
            }
        }
    }

    #[test]
    fn errors_of_the_compiler_name_the_source() {
        if compile::is_available() {
            let problem = compile::module("broken.cu", "not a kernel", &[], "sm_80", None).unwrap_err();
            assert!(problem.starts_with("broken.cu") && problem.contains("error"), "{problem}");
        }
    }

    #[test]
    fn compiled_modules_are_cached() {
        if !compile::is_available() {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let source = "extern \"C\" __global__ void nothing() {}";
        let first = compile::module("nothing.cu", source, &[], "sm_80", Some(folder.path())).unwrap();
        let files = || std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().path()).collect::<Vec<_>>();
        let [file] = &files()[..] else { panic!("one file expected: {:?}", files()) };
        std::fs::write(file, b"damaged").unwrap();
        assert_eq!(compile::module("nothing.cu", source, &[], "sm_80", Some(folder.path())).unwrap(), first);
        assert!(std::fs::metadata(file).unwrap().len() > first.len() as u64, "the damaged file is replaced");
        compile::module("nothing.cu", source, &[], "sm_86", Some(folder.path())).unwrap();
        assert_eq!(files().len(), 2);
    }
}
