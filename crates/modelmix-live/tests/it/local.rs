//! Arms, encoders and scores that run in this process or through commands, on the models and data of `data/fashion`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use modelmix::load;
use modelmix_live::arm::onnx::{self, OnnxOutput, OnnxSettings};
use modelmix_live::arm::replay::{self, ReplaySettings};
use modelmix_live::arm::{Arm, Content, FailureKind, Request};
use modelmix_live::encoder::{EncoderSettings, EvaluationProblem, LiveEncoder, ModelSettings};
use modelmix_live::units::Span;

use crate::command::request;

/// The folder of the data.
fn fashion() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/fashion")
}

fn generator(name: &str, edit: impl FnOnce(&mut OnnxSettings)) -> Result<onnx::OnnxArm, String> {
    let mut settings = OnnxSettings::new(format!("models/{name}.onnx"));
    edit(&mut settings);
    onnx::open(&settings, &fashion(), &|_| None)
}

fn seeded(seed: u64, count: usize) -> Request {
    Request { seed, count, ..request(0) }
}

fn contents(arm: &dyn Arm, request: &Request) -> Vec<Content> {
    arm.call(request).unwrap().samples.into_iter().map(|sample| sample.content).collect()
}

/// The red channel of an image whose channels are equal.
fn grey(content: &Content) -> Vec<u8> {
    let Content::Pixels(image) = content else { panic!("{content:?} has no pixels") };
    assert_eq!((image.width(), image.height()), (28, 28));
    assert!(image.pixels().chunks_exact(3).all(|pixel| pixel[0] == pixel[1] && pixel[1] == pixel[2]));
    image.pixels().iter().copied().step_by(3).collect()
}

pub(crate) fn encoder() -> LiveEncoder {
    let settings = EncoderSettings::Model(ModelSettings::new("models/encoder.onnx"));
    LiveEncoder::open(&settings, &fashion(), &|_| None).unwrap()
}

/// What `fixtures/onnx.py` computed with NumPy and onnxruntime.
#[derive(serde::Deserialize)]
struct Golden {
    seed: u64,
    cases: Vec<GoldenCase>,
}

#[derive(serde::Deserialize)]
struct GoldenCase {
    model: String,
    pixels: Vec<String>,
    features: Vec<Vec<f32>>,
}

/// From the seed to the features. A pixel whose value lies between two levels may be rounded to the other one, since runtimes differ
/// in the last digit.
#[test]
fn images_and_features_are_those_of_onnxruntime() {
    let golden: Golden = serde_json::from_str(include_str!("../fixtures/onnx.json")).unwrap();
    let encoder = encoder();
    for GoldenCase { model, pixels, features } in golden.cases {
        let arm = generator(&model, |_| {}).unwrap();
        let images = contents(&arm, &seeded(golden.seed, pixels.len()));
        for ((image, pixels), features) in images.iter().zip(&pixels).zip(&features) {
            let expected = STANDARD.decode(pixels).unwrap();
            let differences: Vec<u8> = grey(image).iter().zip(&expected).map(|(a, b)| a.abs_diff(*b)).collect();
            assert!(differences.iter().all(|&difference| difference <= 1), "{model}");
            assert!(differences.iter().filter(|&&difference| difference > 0).count() <= 2, "{model}");
            let found = encoder.encode(image).unwrap();
            let largest = found.iter().zip(features).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(found.len() == 64 && largest < 0.02, "{model}: {largest}");
        }
        // A control: another seed gives another image.
        let other = contents(&arm, &seeded(golden.seed + 1, 1));
        assert_ne!(grey(&other[0]), STANDARD.decode(&pixels[0]).unwrap());
    }
}

/// The mean of the features of new images is that of the recorded samples. Its distance has a standard error of about
/// 2.7 · √(64/150) = 1.8; arms differ by more than 10.
#[test]
fn new_images_are_like_recorded_ones() {
    let (arm, encoder) = (generator("tops_gan", |_| {}).unwrap(), encoder());
    let images: Vec<Content> = (0..15).flat_map(|seed| contents(&arm, &seeded(seed, 10))).collect();
    let mut mean = vec![0.0; 64];
    for image in &images {
        let features = encoder.encode(image).unwrap();
        mean.iter_mut().zip(features).for_each(|(mean, value)| *mean += value / images.len() as f32);
    }
    let distance = |arm: &str| {
        let recorded = load::features(fashion().join("specialists.npz"), Some(arm)).unwrap();
        let value = |column: usize| (0..recorded.len()).map(|row| recorded.row(row)[column]).sum::<f32>();
        let squared = |column: usize| (mean[column] - value(column) / recorded.len() as f32).powi(2);
        (0..64).map(squared).sum::<f32>().sqrt()
    };
    let (own, other) = (distance("tops_gan"), distance("shoes_gan"));
    assert!(own < 4.0 && other > 8.0, "{own} {other}");
}

#[test]
fn a_seed_decides_the_samples_of_an_onnx_arm() {
    let arm = generator("vae", |settings| settings.price_per_sample = 0.25).unwrap();
    let three = contents(&arm, &seeded(9, 3));
    assert_eq!(three, contents(&arm, &seeded(9, 3)));
    assert_eq!(three[..2], contents(&arm, &seeded(9, 2)), "a sample does not depend on those after it");
    assert_eq!(arm.call(&seeded(9, 3)).unwrap().cost, 0.75);
    assert_eq!(arm.reserve(&seeded(9, 3)), 0.75);
    // Small random numbers give nearly the same image for every seed; the usual ones do not.
    let spread = |scale: f64, truncation: Option<f64>| {
        let arm = generator("vae", |settings| (settings.scale, settings.truncation) = (scale, truncation)).unwrap();
        let (one, other) = (contents(&arm, &seeded(1, 1)).remove(0), contents(&arm, &seeded(2, 1)).remove(0));
        grey(&one).iter().zip(grey(&other)).map(|(a, b)| u32::from(a.abs_diff(b))).sum::<u32>()
    };
    let usual = spread(1.0, None);
    assert!(usual > 5000 && spread(0.01, None) < usual / 10 && spread(1.0, Some(0.02)) < usual / 10);
}

#[test]
fn an_onnx_arm_gives_features_or_images_of_another_range() {
    let arm = generator("encoder", |settings| settings.output = OnnxOutput::Features).unwrap();
    let rows = contents(&arm, &seeded(1, 2));
    assert!(matches!(&rows[..], [Content::Features(one), Content::Features(other)]
        if one.len() == 64 && other.len() == 64 && one != other));
    // From -1 to 1, the values from 0 to 1 are the brighter half: v becomes (v + 255) / 2.
    let usual = grey(&contents(&generator("vae", |_| {}).unwrap(), &seeded(1, 1))[0]);
    let arm = generator("vae", |settings| settings.range = [-1.0, 1.0]).unwrap();
    for (bright, usual) in grey(&contents(&arm, &seeded(1, 1))[0]).into_iter().zip(usual) {
        assert!((f32::from(bright) - (f32::from(usual) + 255.0) / 2.0).abs() <= 1.0, "{bright} {usual}");
    }
    let failure = generator("encoder", |_| {}).unwrap().call(&seeded(1, 1)).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Invalid);
    assert!(failure.message.contains("encoder.onnx") && failure.message.contains("[1, 64]"), "{failure:?}");
}

#[test]
fn settings_of_onnx_arms_are_checked() {
    let problem = |name: &str, edit: fn(&mut OnnxSettings)| generator(name, edit).unwrap_err();
    assert!(problem("gone", |_| {}).contains("there is no such file"));
    assert!(problem("vae", |settings| settings.tensor = Some("mask".into())).contains("choose tensor from image"));
    assert!(problem("vae", |settings| settings.latent = Some(vec![])).contains("takes [n, 16]"));
    assert!(problem("vae", |settings| settings.latent = Some(vec![64])).contains("takes [n, 16]"));
    assert!(problem("vae", |settings| settings.latent = Some(vec![0])).contains("latent = [0]"));
    assert!(problem("vae", |settings| settings.scale = 0.0).contains("scale = 0"));
    assert!(problem("vae", |settings| settings.truncation = Some(0.0)).contains("truncation = 0"));
    assert!(problem("vae", |settings| settings.range = [1.0, 1.0]).contains("range = [1, 1]"));
    assert!(problem("vae", |settings| settings.threads = 0).contains("threads = 0"));
    assert!(problem("vae", |settings| settings.price_per_sample = f64::NAN).contains("price_per_sample"));
    assert!(toml::from_str::<OnnxSettings>("model = 'x.onnx'\nz = 5").unwrap_err().to_string().contains("z"));
    assert_eq!(toml::from_str::<OnnxSettings>("model = 'x.onnx'").unwrap(), OnnxSettings::new("x.onnx"));
}

fn recorded(edit: impl FnOnce(&mut ReplaySettings)) -> replay::ReplayArm {
    let mut settings = ReplaySettings::new("specialists.npz:vae");
    edit(&mut settings);
    replay::open(&settings, &fashion(), &|_| None).unwrap()
}

fn row(content: Content) -> Vec<u32> {
    let Content::Features(features) = content else { panic!("{content:?} are no features") };
    features.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn a_replay_draws_recorded_rows() {
    let file = load::features(fashion().join("specialists.npz"), Some("vae")).unwrap();
    let rows: BTreeSet<Vec<u32>> =
        file.view().iter().map(|row| row.iter().map(|value| value.to_bits()).collect()).collect();
    let arm = recorded(|settings| settings.cost_per_sample = 0.5);
    let drawn: Vec<Vec<u32>> = contents(&arm, &seeded(3, 3000)).into_iter().map(row).collect();
    let distinct: BTreeSet<_> = drawn.iter().cloned().collect();
    assert!(distinct.is_subset(&rows));
    // Of 1500 rows, 3000 draws miss 1500 · (1 − 1/1500)³⁰⁰⁰ = 203 on average, with a standard deviation of 11.
    assert!((1500 - 203_i32 - distinct.len() as i32).abs() < 55, "{}", distinct.len());
    assert_eq!(drawn[..5], contents(&arm, &seeded(3, 5)).into_iter().map(row).collect::<Vec<_>>());
    assert_eq!((arm.reserve(&seeded(3, 4)), arm.call(&seeded(3, 4)).unwrap().cost), (2.0, 2.0));

    // Without replacement, the pulls together get every row once.
    let arm = recorded(|settings| settings.with_replacement = false);
    let pull = |pull: u64| arm.call(&Request { pull, count: 400, ..request(0) });
    let all: Vec<Vec<u32>> =
        (0..4).flat_map(|number| pull(number).unwrap().samples).map(|sample| row(sample.content)).collect();
    assert_eq!((all.len(), all.iter().cloned().collect::<BTreeSet<_>>()), (1500, rows));
    assert_ne!(all[0], row(Content::Features(file.row(0).to_vec())));
    let failure = pull(4).unwrap_err();
    assert_eq!((failure.kind, failure.is_temporary), (FailureKind::Empty, false));
    assert!(failure.message.contains("all 1500 rows"), "{failure:?}");
}

#[test]
fn a_replay_is_checked_and_interrupted() {
    let problem = |path: &str| replay::open(&ReplaySettings::new(path), &fashion(), &|_| None).unwrap_err();
    assert!(problem("specialists.npz").contains("choose one, as in specialists.npz:tops_gan"));
    assert!(problem("gone.npz").contains("gone.npz") && problem("specialists.npz:x").contains("no array"));
    let arm = recorded(|settings| settings.delay = Some(Span(std::time::Duration::from_secs(1000))));
    let failure = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| arm.call(&request(0)).unwrap_err());
        arm.interrupt();
        waiting.join().unwrap()
    });
    assert_eq!(failure.kind, FailureKind::Broken);
}

#[test]
fn an_encoder_takes_pixels_and_files() {
    let encoder = encoder();
    let images = contents(&generator("shoes_gan", |_| {}).unwrap(), &seeded(4, 2));
    let mut png = Vec::new();
    let mut writer = png::Encoder::new(&mut png, 28, 28).write_header().unwrap();
    writer.write_image_data(&grey(&images[0])).unwrap();
    writer.finish().unwrap();
    let features = encoder.encode(&images[0]).unwrap();
    assert_eq!(encoder.encode(&Content::File(png)).unwrap(), features);
    assert_ne!(encoder.encode(&images[1]).unwrap(), features);
    assert_eq!(encoder.fingerprint().len(), 64);
    for content in [Content::Text("a".into()), Content::File(vec![1, 2]), Content::Features(vec![1.0])] {
        assert!(matches!(encoder.encode(&content), Err(EvaluationProblem::Sample(_))), "{content:?}");
    }

    let arm: EncoderSettings = serde_json::from_str("\"arm\"").unwrap();
    let arm = LiveEncoder::open(&arm, &fashion(), &|_| None).unwrap();
    assert!(arm.is_arm() && !encoder.is_arm());
    assert_eq!(arm.encode(&Content::Features(vec![1.0, 2.0])).unwrap(), [1.0, 2.0]);
    assert!(arm.encode(&images[0]).is_err());
}

#[test]
fn settings_of_encoders_are_read() {
    #[derive(Debug, serde::Deserialize, serde::Serialize)]
    struct Table {
        encoder: EncoderSettings,
    }
    let read = |text: &str| toml::from_str::<Table>(text);
    for (text, part) in [
        ("encoder = 'arms'", "encoder = \"arm\""),
        ("encoder = {preset = 'x'}", "exactly one of name, command and embeddings"),
        ("encoder = {name = 'x', command = ['y']}", "exactly one of"),
        ("encoder = {name = 'x', presett = 'y'}", "presett"),
        ("encoder = {command = 'y'}", "sequence"),
    ] {
        let problem = read(text).unwrap_err().to_string();
        assert!(problem.contains(part), "{text}: {problem}");
    }
    for text in [
        "encoder = 'arm'",
        "encoder = {name = 'dinov2-vitl14', preset = 'dgm-eval'}",
        "encoder = {command = ['python3', 'encode.py'], workers = 2}",
        "encoder = {embeddings = {base_url = 'http://localhost:1/v1', model = 'm'}}",
    ] {
        let table = read(text).unwrap();
        let again: Table = serde_json::from_value(serde_json::to_value(&table).unwrap()).unwrap();
        assert_eq!(again.encoder, table.encoder, "{text}");
    }
    let problem = |settings: ModelSettings| {
        LiveEncoder::open(&EncoderSettings::Model(settings), &fashion(), &|_| None).unwrap_err()
    };
    assert!(problem(ModelSettings::new("gone.onnx")).contains("gone.onnx"));
    assert!(problem(ModelSettings::new("dinov3")).contains("dinov3"));
    let settings = ModelSettings { runtime: Some("tensorrt".into()), ..ModelSettings::new("models/encoder.onnx") };
    assert!(problem(settings).contains("tensorrt"));
}
