//! The convolutions of FID's Inception-v3, with their names in the files that hold them, and their folded weights.

use std::collections::BTreeMap;

use crate::problem::Problem;
use crate::torch_file::{Tensor, Values};

/// The ε of every batch normalisation.
const EPSILON: f64 = 1e-3;

/// How many missing tensors a message lists.
const LISTED: usize = 3;

/// A convolution: its name in torchvision's module, in the TorchScript of StyleGAN, and the size of its kernel.
type Convolution = (&'static str, &'static str, [usize; 2]);

const STEM: &[Convolution] = &[
    ("Conv2d_1a_3x3", "conv", [3, 3]),
    ("Conv2d_2a_3x3", "conv_1", [3, 3]),
    ("Conv2d_2b_3x3", "conv_2", [3, 3]),
    ("Conv2d_3b_1x1", "conv_3", [1, 1]),
    ("Conv2d_4a_3x3", "conv_4", [3, 3]),
];

const A: &[Convolution] = &[
    ("branch1x1", "conv", [1, 1]),
    ("branch5x5_1", "tower.conv", [1, 1]),
    ("branch5x5_2", "tower.conv_1", [5, 5]),
    ("branch3x3dbl_1", "tower_1.conv", [1, 1]),
    ("branch3x3dbl_2", "tower_1.conv_1", [3, 3]),
    ("branch3x3dbl_3", "tower_1.conv_2", [3, 3]),
    ("branch_pool", "tower_2.conv", [1, 1]),
];

const B: &[Convolution] = &[
    ("branch3x3", "conv", [3, 3]),
    ("branch3x3dbl_1", "tower.conv", [1, 1]),
    ("branch3x3dbl_2", "tower.conv_1", [3, 3]),
    ("branch3x3dbl_3", "tower.conv_2", [3, 3]),
];

const C: &[Convolution] = &[
    ("branch1x1", "conv", [1, 1]),
    ("branch7x7_1", "tower.conv", [1, 1]),
    ("branch7x7_2", "tower.conv_1", [1, 7]),
    ("branch7x7_3", "tower.conv_2", [7, 1]),
    ("branch7x7dbl_1", "tower_1.conv", [1, 1]),
    ("branch7x7dbl_2", "tower_1.conv_1", [7, 1]),
    ("branch7x7dbl_3", "tower_1.conv_2", [1, 7]),
    ("branch7x7dbl_4", "tower_1.conv_3", [7, 1]),
    ("branch7x7dbl_5", "tower_1.conv_4", [1, 7]),
    ("branch_pool", "tower_2.conv", [1, 1]),
];

const D: &[Convolution] = &[
    ("branch3x3_1", "tower.conv", [1, 1]),
    ("branch3x3_2", "tower.conv_1", [3, 3]),
    ("branch7x7x3_1", "tower_1.conv", [1, 1]),
    ("branch7x7x3_2", "tower_1.conv_1", [1, 7]),
    ("branch7x7x3_3", "tower_1.conv_2", [7, 1]),
    ("branch7x7x3_4", "tower_1.conv_3", [3, 3]),
];

const E: &[Convolution] = &[
    ("branch1x1", "conv", [1, 1]),
    ("branch3x3_1", "tower_conv", [1, 1]),
    ("branch3x3_2a", "tower_mixed_conv", [1, 3]),
    ("branch3x3_2b", "tower_mixed_conv_1", [3, 1]),
    ("branch3x3dbl_1", "tower_1_conv", [1, 1]),
    ("branch3x3dbl_2", "tower_1_conv_1", [3, 3]),
    ("branch3x3dbl_3a", "tower_1_mixed_conv", [1, 3]),
    ("branch3x3dbl_3b", "tower_1_mixed_conv_1", [3, 1]),
    ("branch_pool", "tower_2_conv", [1, 1]),
];

const BLOCKS: &[(&str, &str, &[Convolution])] = &[
    ("Mixed_5b", "mixed", A),
    ("Mixed_5c", "mixed_1", A),
    ("Mixed_5d", "mixed_2", A),
    ("Mixed_6a", "mixed_3", B),
    ("Mixed_6b", "mixed_4", C),
    ("Mixed_6c", "mixed_5", C),
    ("Mixed_6d", "mixed_6", C),
    ("Mixed_6e", "mixed_7", C),
    ("Mixed_7a", "mixed_8", D),
    ("Mixed_7b", "mixed_9", E),
    ("Mixed_7c", "mixed_10", E),
];

/// A convolution with its batch normalisation folded in.
#[derive(Clone, Debug)]
pub(super) struct Folded {
    /// Output channels, input channels, height and width of the kernel.
    pub(super) shape: [usize; 4],
    pub(super) weights: Vec<f32>,
    pub(super) bias: Vec<f32>,
}

/// How the tensors of a file are named, below a prefix.
#[derive(Clone, Debug)]
enum Naming {
    /// As torchvision names them: pytorch-fid, torch-fidelity.
    Torchvision(String),
    /// As the TorchScript of StyleGAN names them: clean-fid, fid-helper. Batch normalisation has no scale.
    Script(String),
}

impl Naming {
    fn of(tensors: &BTreeMap<String, Tensor>) -> Result<Self, Problem> {
        let prefix = |first: &str| tensors.keys().find_map(|name| name.strip_suffix(first));
        if let Some(prefix) = prefix("Conv2d_1a_3x3.conv.weight") {
            return Ok(Self::Torchvision(prefix.to_owned()));
        }
        if let Some(prefix) = prefix("layers.conv.weight") {
            return Ok(Self::Script(prefix.to_owned()));
        }
        let found: Vec<&str> = tensors.keys().map(String::as_str).take(LISTED).collect();
        let found = if found.is_empty() { "no tensors".to_owned() } else { format!("{}, …", found.join(", ")) };
        Err(Problem::new(format!(
            "it has neither Conv2d_1a_3x3.conv.weight nor layers.conv.weight, so it is not FID's Inception-v3 (it has {found}); pass the weights of pytorch-fid, torch-fidelity or StyleGAN"
        )))
    }

    /// The names of the weights, and of scale, shift, mean and variance of the normalisation.
    fn names(&self, torchvision: &str, script: &str) -> [Option<String>; 5] {
        match self {
            Self::Torchvision(prefix) => {
                let name = |part: &str| Some(format!("{prefix}{torchvision}.{part}"));
                ["conv.weight", "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"].map(name)
            }
            Self::Script(prefix) => {
                let name = |part: &str| Some(format!("{prefix}layers.{script}.{part}"));
                [name("weight"), None, name("beta"), name("mean"), name("var")]
            }
        }
    }

    /// Refuses the ImageNet weights of torchvision, whose tensors have the same names.
    fn check(&self, tensors: &BTreeMap<String, Tensor>) -> Result<(), Problem> {
        let Self::Torchvision(prefix) = self else { return Ok(()) };
        let classes = tensors.get(&format!("{prefix}fc.weight")).and_then(|fc| fc.shape().first().copied());
        let auxiliary = tensors.contains_key(&format!("{prefix}AuxLogits.conv0.conv.weight"));
        if classes == Some(1000) || auxiliary {
            return Err(Problem::new(
                "it is torchvision's Inception-v3 for ImageNet, whose features are not those of FID; pass the weights of 2015-12-05 of pytorch-fid, torch-fidelity or StyleGAN",
            ));
        }
        Ok(())
    }
}

/// Every convolution, by its torchvision name.
///
/// # Errors
/// If tensors are missing or have other shapes.
pub(super) fn convolutions(tensors: &BTreeMap<String, Tensor>) -> Result<BTreeMap<String, Folded>, Problem> {
    let naming = Naming::of(tensors)?;
    naming.check(tensors)?;
    let stem = STEM.iter().map(|&(torchvision, script, kernel)| (torchvision.to_owned(), script.to_owned(), kernel));
    let blocks = BLOCKS.iter().flat_map(|(block, script_block, convolutions)| {
        convolutions.iter().map(move |(torchvision, script, kernel)| {
            (format!("{block}.{torchvision}"), format!("{script_block}.{script}"), *kernel)
        })
    });
    let mut all = BTreeMap::new();
    let mut missing = Vec::new();
    for (torchvision, script, kernel) in stem.chain(blocks) {
        let names = naming.names(&torchvision, &script);
        let absent = names.iter().flatten().filter(|name| !tensors.contains_key(*name)).cloned();
        let before = missing.len();
        missing.extend(absent);
        if missing.len() == before {
            all.insert(torchvision, fold(tensors, &names, kernel)?);
        }
    }
    if missing.is_empty() {
        return Ok(all);
    }
    let listed = missing.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let rest = missing.len().saturating_sub(LISTED);
    let more = if rest == 0 { String::new() } else { format!(" and {rest} more") };
    Err(Problem::new(format!(
        "its tensors {listed}{more} are missing, so it is not FID's Inception-v3; pass the weights of pytorch-fid, torch-fidelity or StyleGAN"
    )))
}

/// Folds a batch normalisation into the convolution before it: w′ = w γ / √(σ² + ε), b′ = β − μ γ / √(σ² + ε).
fn fold(
    tensors: &BTreeMap<String, Tensor>,
    [weights, scale, shift, mean, variance]: &[Option<String>; 5],
    kernel: [usize; 2],
) -> Result<Folded, Problem> {
    let get = |name: &Option<String>| name.as_ref().and_then(|name| tensors.get_key_value(name));
    let (Some((name, weights)), Some(shift), Some(mean), Some(variance)) =
        (get(weights), get(shift), get(mean), get(variance))
    else {
        return Err(Problem::new("its tensors are incomplete; download it again"));
    };
    let wrong = |name: &str, tensor: &Tensor, expected: String| {
        Problem::new(format!(
            "its tensor {name} has shape {:?} instead of {expected}, so it is not FID's Inception-v3; pass the weights of pytorch-fid, torch-fidelity or StyleGAN",
            tensor.shape()
        ))
    };
    let &[outputs, inputs, height, width] = weights.shape() else {
        return Err(wrong(name, weights, format!("[outputs, inputs, {}, {}]", kernel[0], kernel[1])));
    };
    if [height, width] != kernel || outputs == 0 || inputs == 0 {
        return Err(wrong(name, weights, format!("[outputs, inputs, {}, {}]", kernel[0], kernel[1])));
    }
    let per_channel = |(name, tensor): (&String, &Tensor)| {
        if tensor.shape() != [outputs] {
            return Err(wrong(name, tensor, format!("[{outputs}]")));
        }
        if matches!(tensor.values(), Values::Integers(_)) {
            return Err(Problem::new(format!("its tensor {name} has integers instead of floats; download it again")));
        }
        Ok(tensor.to_f64())
    };
    let scale = get(scale).map_or_else(|| Ok(vec![1.0; outputs]), per_channel)?;
    let (shift, mean, variance) = (per_channel(shift)?, per_channel(mean)?, per_channel(variance)?);
    let factors: Vec<f64> =
        scale.iter().zip(&variance).map(|(scale, variance)| scale / (variance + EPSILON).sqrt()).collect();
    let filter = inputs * height * width;
    let folded: Vec<f32> = weights
        .to_f64()
        .chunks_exact(filter)
        .zip(&factors)
        .flat_map(|(filter, factor)| filter.iter().map(move |weight| (weight * factor) as f32))
        .collect();
    let bias = shift.iter().zip(&mean).zip(&factors).map(|((shift, mean), factor)| (shift - mean * factor) as f32);
    let bias: Vec<f32> = bias.collect();
    if folded.iter().chain(&bias).any(|value| !value.is_finite()) {
        return Err(Problem::new(format!("its tensor {name} or its normalisation is not finite; download it again")));
    }
    Ok(Folded { shape: [outputs, inputs, height, width], weights: folded, bias })
}
