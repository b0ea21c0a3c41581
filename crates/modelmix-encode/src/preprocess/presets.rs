//! The preprocessing of tools, per family of encoders. Each function says where its definitions come from.

use super::{Channels, Preprocessing, Rounding, Size, Step, Tool};
use crate::problem::Problem;
use crate::resize::{Filter, Method, PassOrder, TorchFilter};

/// Means of ImageNet's channels in 0..=1.
const IMAGENET_MEAN: [f64; 3] = [0.485, 0.456, 0.406];
/// Standard deviations of ImageNet's channels in 0..=1.
const IMAGENET_STD: [f64; 3] = [0.229, 0.224, 0.225];
/// Means of CLIP's training images in 0..=1.
const CLIP_MEAN: [f64; 3] = [0.48145466, 0.4578275, 0.40821073];
/// Standard deviations of CLIP's training images in 0..=1.
const CLIP_STD: [f64; 3] = [0.26862954, 0.26130258, 0.27577711];

/// Pillow's 8-bit resize, in the order of passes of its newest version.
fn pillow(filter: Filter) -> Method {
    Method::Pillow { filter, passes: PassOrder::Pillow13 }
}

/// Each channel resized as a float image and clipped, as clean-fid introduced it.
fn clean(side: usize) -> [Step; 2] {
    let method = Method::PillowFloat { filter: Filter::Bicubic, passes: PassOrder::Pillow13 };
    [Step::Resize { size: Size::square(side), method }, Step::Clip { low: 0.0, high: 255.0 }]
}

fn squash(side: usize, method: Method) -> Step {
    Step::Resize { size: Size::square(side), method }
}

fn short_edge(side: usize, method: Method) -> Step {
    Step::Resize { size: Size::ShortEdge(side), method }
}

fn crop(side: usize, rounding: Rounding) -> Step {
    Step::CropCentre { height: side, width: side, rounding }
}

/// Values in 0..=1: torchvision's `ToTensor`.
const UNIT: Step = Step::Divide(255.0);

/// torchvision's `Normalize`: the constants are rounded to single precision.
fn normalise(mean: [f64; 3], std: [f64; 3]) -> Step {
    let single = |values: [f64; 3]| values.map(|value| value as f32).to_vec();
    Step::Normalise { mean: single(mean), std: single(std) }
}

/// `Normalize` of values in 0..=255, with constants multiplied by 255 in double precision: torch-fidelity.
fn normalise_pixels(mean: [f64; 3], std: [f64; 3]) -> Step {
    normalise(mean.map(|value| 255.0 * value), std.map(|value| 255.0 * value))
}

/// `Normalize` of values in 0..=255, with constants multiplied by 255 in single precision: `transformers` on
/// torchvision, which fuses the division by 255 with the normalisation.
fn normalise_fused(mean: [f64; 3], std: [f64; 3]) -> Step {
    let fused = |values: [f64; 3]| values.map(|value| value as f32 * 255.0).to_vec();
    Step::Normalise { mean: fused(mean), std: fused(std) }
}

/// (x − 128)/128, the input range of the FID Inception network.
const INCEPTION_RANGE: [Step; 2] = [Step::Add(-128.0), Step::Divide(128.0)];

/// From 0..=1 to −1..=1.
const SIGNED_UNIT: [Step; 2] = [Step::Multiply(2.0), Step::Add(-1.0)];

fn rgb(steps: impl Into<Vec<Step>>) -> Preprocessing {
    Preprocessing { channels: Channels::Rgb, steps: steps.into() }
}

fn unknown(tool: Tool, family: &str, tools: &[Tool]) -> Problem {
    let tools = tools.iter().map(|tool| tool.name()).collect::<Vec<_>>().join(", ");
    Problem::new(format!("{tool} has no preprocessing for {family}; choose one of {tools}"))
}

/// The FID Inception-v3 network with inputs of 299 × 299 pixels.
///
/// - `torch-fidelity`: `FeatureExtractorInceptionV3.forward`: TensorFlow 1's bilinear resize, then (x − 128)/128.
/// - `clean-fid`: `make_resizer("PIL", False, "bicubic")` and `InceptionV3W.forward`: float channels, clipped, then
///   (x − 128)/128.
/// - `pytorch-fid`: `ToTensor`, then `InceptionV3.forward`: torch's bilinear resize, 2x − 1.
/// - `dgm-eval`: `InceptionEncoder.transform` and `InceptionV3.forward`: the same as pytorch-fid; with a clean resize
///   float channels, clipped, divided by 255, then 2x − 1.
///
/// # Errors
/// If the tool has no such network.
pub fn inception(tool: Tool) -> Result<Preprocessing, Problem> {
    const TOOLS: [Tool; 5] = [Tool::TorchFidelity, Tool::CleanFid, Tool::PytorchFid, Tool::DgmEval, Tool::DgmEvalClean];
    let side = 299;
    let torch = Method::Torch { filter: TorchFilter::Bilinear, antialias: false };
    Ok(rgb(match tool {
        Tool::TorchFidelity => [[squash(side, Method::TensorFlow1)].as_slice(), &INCEPTION_RANGE].concat(),
        Tool::CleanFid => [clean(side), INCEPTION_RANGE].concat(),
        Tool::PytorchFid | Tool::DgmEval => [[UNIT, squash(side, torch)], SIGNED_UNIT].concat(),
        Tool::DgmEvalClean => [clean(side).as_slice(), &[UNIT], &SIGNED_UNIT].concat(),
        _ => return Err(unknown(tool, "Inception-v3", &TOOLS)),
    }))
}

/// DINOv2 of any size with inputs of 224 × 224 pixels.
///
/// - `mixture-ucb`: `DINO.py`: squashed by Pillow's bicubic filter, `ToTensor`, ImageNet's constants.
/// - `dgm-eval`: `DINOv2Encoder.transform`: the same; with a clean resize float channels, clipped, divided by 255.
/// - `huggingface`: `facebook/dinov2-*` name `BitImageProcessor` with a shorter edge of 256 and a crop of 224, on
///   torchvision: torch's 8-bit bicubic filter, constants fused with the division by 255.
/// - `huggingface-pil`: the same on Pillow and NumPy.
/// - `torch-fidelity`: `FeatureExtractorDinoV2.forward`: TensorFlow 1's bilinear resize, ImageNet's constants × 255.
///
/// # Errors
/// If the tool has no such network.
pub fn dinov2(tool: Tool) -> Result<Preprocessing, Problem> {
    const TOOLS: [Tool; 6] = [
        Tool::MixtureUcb,
        Tool::DgmEval,
        Tool::DgmEvalClean,
        Tool::HuggingFace,
        Tool::HuggingFacePil,
        Tool::TorchFidelity,
    ];
    let (side, edge) = (224, 256);
    let (mean, std) = (IMAGENET_MEAN, IMAGENET_STD);
    Ok(match tool {
        Tool::MixtureUcb | Tool::DgmEval => rgb([squash(side, pillow(Filter::Bicubic)), UNIT, normalise(mean, std)]),
        Tool::DgmEvalClean => rgb([clean(side).as_slice(), &[UNIT, normalise(mean, std)]].concat()),
        Tool::HuggingFace => huggingface(edge, side, mean, std),
        Tool::HuggingFacePil => huggingface_pil(edge, side, mean, std),
        Tool::TorchFidelity => rgb([squash(side, Method::TensorFlow1), normalise_pixels(mean, std)]),
        _ => return Err(unknown(tool, "DINOv2", &TOOLS)),
    })
}

/// CLIP with square inputs of this side: 224, or 336 for ViT-L/14-336.
///
/// - `open-clip`: `image_transform(is_train=False)`: shorter edge by Pillow's bicubic filter, centre crop, `ToTensor`,
///   CLIP's constants. OpenAI's `clip` does the same.
/// - `clean-fid`: `img_preprocess_clip`, `ResizeDataset` and `CLIP_fx`: the same, with values divided by 255,
///   multiplied by 255 and divided by 255 again.
/// - `huggingface`: `CLIPImageProcessor` on torchvision: torch's 8-bit bicubic filter, constants fused with the division
///   by 255.
/// - `huggingface-pil`: the same on Pillow and NumPy.
/// - `dgm-eval`: `CLIPEncoder.transform`: squashed, because `visual.image_size` of OpenCLIP has two numbers.
/// - `mixture-ucb`: `CLIP.py`: squashed, ImageNet's constants.
/// - `cmmd`: `CMMDDataset` and `ClipEmbeddingModel` of cmmd-pytorch: the central square by Pillow's bicubic filter. The
///   bicubic resize of torch that follows is from the same size to the same size.
/// - `torch-fidelity`: `FeatureExtractorCLIP.forward`: TensorFlow 1's bilinear resize, CLIP's constants × 255.
///
/// # Errors
/// If the tool has no such network.
pub fn clip(tool: Tool, side: usize) -> Result<Preprocessing, Problem> {
    const TOOLS: [Tool; 9] = [
        Tool::OpenClip,
        Tool::CleanFid,
        Tool::HuggingFace,
        Tool::HuggingFacePil,
        Tool::DgmEval,
        Tool::DgmEvalClean,
        Tool::MixtureUcb,
        Tool::Cmmd,
        Tool::TorchFidelity,
    ];
    let (mean, std) = (CLIP_MEAN, CLIP_STD);
    let bicubic = pillow(Filter::Bicubic);
    let torchvision = [short_edge(side, bicubic), crop(side, Rounding::HalfToEven)];
    Ok(match tool {
        Tool::OpenClip => rgb([torchvision, [UNIT, normalise(mean, std)]].concat()),
        Tool::CleanFid => rgb([torchvision, [UNIT, Step::Multiply(255.0)], [UNIT, normalise(mean, std)]].concat()),
        Tool::HuggingFace => huggingface(side, side, mean, std),
        Tool::HuggingFacePil => huggingface_pil(side, side, mean, std),
        Tool::DgmEval => rgb([squash(side, bicubic), UNIT, normalise(mean, std)]),
        Tool::DgmEvalClean => rgb([clean(side), [UNIT, normalise(mean, std)]].concat()),
        Tool::MixtureUcb => rgb([squash(side, bicubic), UNIT, normalise(IMAGENET_MEAN, IMAGENET_STD)]),
        Tool::Cmmd => rgb([Step::CropSquare, squash(side, bicubic), UNIT, normalise(mean, std)]),
        Tool::TorchFidelity => rgb([squash(side, Method::TensorFlow1), normalise_pixels(mean, std)]),
        Tool::PytorchFid => return Err(unknown(tool, "CLIP", &TOOLS)),
    })
}

/// SwAV's ResNet-50. The size of the tensor depends on the aspect ratio of the image.
///
/// - `dgm-eval`: `ResNet50Encoder.transform`: `Resize(224)` with Pillow's bilinear filter and no crop, ImageNet's
///   constants.
///
/// # Errors
/// If the tool has no such network.
pub fn swav(tool: Tool) -> Result<Preprocessing, Problem> {
    match tool {
        Tool::DgmEval => {
            Ok(rgb([short_edge(224, pillow(Filter::Bilinear)), UNIT, normalise(IMAGENET_MEAN, IMAGENET_STD)]))
        }
        _ => Err(unknown(tool, "SwAV", &[Tool::DgmEval])),
    }
}

/// Grey values in 0..=1, squashed to this height and width, or of the image's own size: for small encoders.
pub fn grey(size: Option<(usize, usize)>) -> Preprocessing {
    let resize = size
        .map(|(height, width)| Step::Resize { size: Size::Exact { height, width }, method: pillow(Filter::Bilinear) });
    Preprocessing { channels: Channels::Grey, steps: resize.into_iter().chain([UNIT]).collect() }
}

/// An image processor of `transformers` on torchvision: shorter edge, crop, fused normalisation.
fn huggingface(edge: usize, side: usize, mean: [f64; 3], std: [f64; 3]) -> Preprocessing {
    let method = Method::Torch8Bit { filter: TorchFilter::Bicubic };
    rgb([short_edge(edge, method), crop(side, Rounding::TowardsZero), normalise_fused(mean, std)])
}

/// An image processor of `transformers` on Pillow: shorter edge, crop, division by 255 in double precision.
fn huggingface_pil(edge: usize, side: usize, mean: [f64; 3], std: [f64; 3]) -> Preprocessing {
    rgb([
        short_edge(edge, pillow(Filter::Bicubic)),
        crop(side, Rounding::Down),
        Step::MultiplyDouble(1.0 / 255.0),
        normalise(mean, std),
    ])
}
