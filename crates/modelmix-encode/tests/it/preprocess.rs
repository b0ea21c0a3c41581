//! Whole presets against the tools themselves: hashes of the tensors that reach their networks, made by
//! `tools/golden_resize.py`.

use modelmix_encode::preprocess::{Channels, Preprocessing, Rounding, Size, Step, Tool, presets};
use modelmix_encode::resize::{Filter, Method, PassOrder, TorchFilter};
use modelmix_encode::{Image, Problem};

use crate::generator::{digest, golden, image, section};

/// As in `tools/golden_resize.py`.
const SIZES: [(usize, usize); 16] = [
    (299, 299),
    (224, 224),
    (336, 336),
    (64, 64),
    (512, 512),
    (37, 53),
    (1, 1),
    (1, 40),
    (40, 1),
    (500, 20),
    (20, 500),
    (333, 500),
    (640, 427),
    (225, 224),
    (227, 300),
    (300, 1024),
];

fn preset(family: &str, tool: Tool) -> Result<Preprocessing, Problem> {
    match family {
        "inception" => presets::inception(tool),
        "dinov2" => presets::dinov2(tool),
        "clip-224" => presets::clip(tool, 224),
        "clip-336" => presets::clip(tool, 336),
        "swav" => presets::swav(tool),
        _ => panic!("no family {family}"),
    }
}

fn tensor(preprocessing: &Preprocessing, image: &Image) -> Vec<f32> {
    let [channels, height, width] = preprocessing.shape_of(image.width(), image.height()).unwrap();
    let mut out = vec![f32::NAN; channels * height * width];
    preprocessing.apply(image, &mut out).unwrap();
    out
}

#[test]
fn presets_are_those_of_the_tools() {
    let golden = golden("tools.json");
    let mut wrong = Vec::new();
    let mut compared = 0;
    for name in golden.as_object().unwrap().keys().filter(|name| name.contains(' ')) {
        let (family, tool) = name.split_once(' ').unwrap();
        let preprocessing = preset(family, tool.parse().unwrap()).unwrap();
        let expected = section(&golden, name);
        assert_eq!(expected.len(), SIZES.len());
        for (seed, ((width, height), expected)) in SIZES.into_iter().zip(expected).enumerate() {
            let image = image(seed as u64, width, height);
            let bytes: Vec<u8> = tensor(&preprocessing, &image).iter().flat_map(|value| value.to_le_bytes()).collect();
            compared += 1;
            if digest(&bytes) != expected {
                wrong.push(format!("{name} {width}×{height}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {compared} tensors differ: {wrong:?}", wrong.len());
    assert!(compared >= 400);
}

#[test]
fn every_preset_of_a_tool_is_in_the_golden_file() {
    let golden = golden("tools.json");
    for family in ["inception", "dinov2", "clip-224", "clip-336", "swav"] {
        for tool in Tool::ALL {
            let Ok(preprocessing) = preset(family, tool) else { continue };
            // Presets whose tool fixes another size.
            let size_not_used =
                matches!((family, tool), ("clip-224", Tool::Cmmd) | ("clip-336", Tool::CleanFid | Tool::MixtureUcb));
            assert!(size_not_used || golden.get(format!("{family} {tool}")).is_some(), "{family} {tool}");
            let json = serde_json::to_string(&preprocessing).unwrap();
            assert_eq!(serde_json::from_str::<Preprocessing>(&json).unwrap(), preprocessing);
            assert_eq!(preprocessing.shape().is_ok(), family != "swav");
        }
    }
}

#[test]
fn grey_is_that_of_pillow() {
    for file in ["pillow-12.json", "pillow-13.json"] {
        let expected = section(&golden(file), "grey");
        let preprocessing = Preprocessing { channels: Channels::Grey, steps: Vec::new() };
        for (seed, expected) in expected.iter().enumerate() {
            let values = tensor(&preprocessing, &image(seed as u64, 37, 53));
            assert_eq!(&digest(&values.iter().map(|&value| value as u8).collect::<Vec<_>>()), expected);
        }
        assert_eq!(expected.len(), 10);
    }
}

#[test]
fn small_encoders_take_grey_images() {
    let grey = presets::grey(Some((28, 28)));
    assert_eq!(grey.shape().unwrap(), [1, 28, 28]);
    let white = Image::new(5, 9, vec![255; 3 * 45]).unwrap();
    assert!(tensor(&grey, &white).iter().all(|&value| value == 1.0));
    let free = presets::grey(None);
    assert!(free.shape().is_err());
    assert_eq!(free.shape_of(5, 9).unwrap(), [1, 9, 5]);
}

/// A crop takes the pixels that it should, and pads with zeros: from the definition, for all rounding rules.
#[test]
fn crops_and_padding_follow_their_definition() {
    for rounding in [Rounding::HalfToEven, Rounding::TowardsZero, Rounding::Down] {
        for (width, height) in [(1, 1), (4, 7), (7, 4), (6, 6), (9, 5)] {
            for (new_width, new_height) in [(1, 1), (5, 5), (8, 3), (3, 8), (12, 12)] {
                let image = image(1, width, height);
                let crop = Step::CropCentre { height: new_height, width: new_width, rounding };
                let values = tensor(&Preprocessing { channels: Channels::Rgb, steps: vec![crop] }, &image);
                let offset = |size: usize, crop: usize| {
                    let half = (size as f64 - crop as f64) / 2.0;
                    let rounded = match rounding {
                        Rounding::Down => half.floor(),
                        Rounding::HalfToEven if half > 0.0 => half.round_ties_even(),
                        Rounding::HalfToEven | Rounding::TowardsZero => half.trunc(),
                    };
                    rounded as i64
                };
                let (left, top) = (offset(width, new_width), offset(height, new_height));
                for (index, &found) in values.iter().enumerate() {
                    let (x, y) = ((index % new_width) as i64, (index / new_width % new_height) as i64);
                    let channel = index / (new_width * new_height);
                    let (x, y) = (x + left, y + top);
                    let inside = (0..width as i64).contains(&x) && (0..height as i64).contains(&y);
                    let expected =
                        if inside { image.pixels()[3 * (y as usize * width + x as usize) + channel] } else { 0 };
                    assert_eq!(found, f32::from(expected), "{rounding:?} {width}×{height} to {new_width}×{new_height}");
                }
            }
        }
    }
}

/// A resize computes only what the crop after it keeps; a step in between that changes nothing keeps them apart.
#[test]
fn a_resize_with_a_crop_equals_a_resize_and_a_crop() {
    let passes = PassOrder::Pillow13;
    let methods = [
        Method::Pillow { filter: Filter::Lanczos, passes },
        Method::PillowFloat { filter: Filter::Bicubic, passes },
        Method::TensorFlow1,
        Method::Torch8Bit { filter: TorchFilter::Bicubic },
        Method::Torch { filter: TorchFilter::Bilinear, antialias: false },
        Method::Torch { filter: TorchFilter::Bicubic, antialias: false },
        Method::Torch { filter: TorchFilter::Bilinear, antialias: true },
    ];
    for method in methods {
        for (width, height) in [(50, 31), (31, 50), (31, 31), (3, 90), (90, 3), (1, 1)] {
            for size in [Size::ShortEdge(20), Size::square(31), Size::Exact { height: 12, width: 40 }] {
                for crop in [Step::CropSquare, centre(17, 11), centre(20, 44)] {
                    let image = image(5, width, height);
                    let resize = Step::Resize { size, method };
                    let apart = [resize.clone(), Step::Multiply(1.0), crop.clone()].to_vec();
                    let together = Preprocessing { channels: Channels::Rgb, steps: vec![resize, crop] };
                    let apart = Preprocessing { channels: Channels::Rgb, steps: apart };
                    assert_eq!(
                        tensor(&together, &image),
                        tensor(&apart, &image),
                        "{method:?} {width}×{height} {size:?}"
                    );
                }
            }
        }
    }
}

fn centre(height: usize, width: usize) -> Step {
    Step::CropCentre { height, width, rounding: Rounding::HalfToEven }
}

#[test]
fn preprocessing_is_stable_readable_data() {
    let json = serde_json::to_string(&presets::clip(Tool::OpenClip, 224).unwrap()).unwrap();
    assert_eq!(
        json,
        concat!(
            r#"{"channels":"rgb","steps":[{"resize":{"size":{"short-edge":224},"#,
            r#""method":{"library":"pillow","filter":"bicubic","passes":"pillow-13"}}},"#,
            r#"{"crop-centre":{"height":224,"width":224,"rounding":"half-to-even"}},{"divide":255.0},"#,
            r#"{"normalise":{"mean":[0.48145467,0.4578275,0.40821072],"std":[0.26862955,0.2613026,0.2757771]}}]}"#,
        )
    );
    let old = presets::clip(Tool::OpenClip, 224).unwrap().with_pass_order(PassOrder::Pillow12);
    assert_eq!(serde_json::to_string(&old).unwrap(), json.replace("pillow-13", "pillow-12"));
}

#[test]
fn tools_have_the_names_of_the_command_line() {
    for tool in Tool::ALL {
        assert_eq!(tool.to_string().parse::<Tool>().unwrap(), tool);
        assert_eq!(serde_json::to_string(&tool).unwrap(), format!("{:?}", tool.name()));
    }
    let problem = "clip".parse::<Tool>().unwrap_err().to_string();
    assert!(problem.contains("\"clip\"") && problem.contains("torch-fidelity"), "{problem}");
}

#[test]
fn what_cannot_run_is_refused_with_the_step() {
    let resize = |size| Step::Resize { size, method: Method::TensorFlow1 };
    let bytes = Method::Torch8Bit { filter: TorchFilter::Bilinear };
    let constants = |mean: &[f32], std: &[f32]| Step::Normalise { mean: mean.to_vec(), std: std.to_vec() };
    for (step, expected) in [
        (resize(Size::square(0)), "a side of 0 pixels"),
        (resize(Size::ShortEdge(1 << 30)), "a side of 1073741824 pixels"),
        (centre(3, 0), "a side of 0 pixels"),
        (Step::Resize { size: Size::square(8), method: bytes }, "8-bit resize"),
        (Step::Divide(0.0), "division by 0"),
        (Step::Multiply(f32::NAN), "NaN"),
        (Step::MultiplyDouble(f64::INFINITY), "inf"),
        (Step::Clip { low: 1.0, high: 0.0 }, "1..=0"),
        (constants(&[0.5], &[0.5]), "1 means and 1 standard deviations for 3 channels"),
        (constants(&[0.5; 3], &[0.5, 0.0, 0.5]), "division by 0"),
    ] {
        let steps = vec![Step::Divide(255.0), step, centre(2, 2)];
        let preprocessing = Preprocessing { channels: Channels::Rgb, steps };
        let mut out = [0.0; 12];
        for problem in [
            preprocessing.check().unwrap_err(),
            preprocessing.shape().unwrap_err(),
            preprocessing.apply(&image(0, 3, 3), &mut out).unwrap_err(),
        ] {
            let problem = problem.to_string();
            assert!(problem.starts_with("step 2 ") && problem.contains(expected), "{problem}");
        }
    }
    let problem = presets::swav(Tool::Cmmd).unwrap_err().to_string();
    assert!(problem.contains("cmmd") && problem.contains("dgm-eval"), "{problem}");
}

#[test]
fn extreme_images_are_refused_or_cost_only_their_crop() {
    let strip = Image::new(200_000, 1, vec![7; 600_000]).unwrap();
    // 224 × 44,800,000 pixels.
    let mut out = vec![0.0; 3 * 224 * 224];
    let problem = presets::clip(Tool::OpenClip, 224).unwrap().apply(&strip, &mut out).unwrap_err().to_string();
    assert!(problem.contains("the image is 200000 × 1 pixels, too thin"), "{problem}");
    assert!(problem.contains("44800000 × 224"), "{problem}");
    let problem = presets::swav(Tool::DgmEval).unwrap().shape_of(200_000, 1).unwrap_err().to_string();
    assert!(problem.contains("44800000 × 224"), "{problem}");
    // 224 × 112,000 pixels: only the crop is computed.
    let strip = Image::new(500, 1, vec![7; 1_500]).unwrap();
    presets::clip(Tool::OpenClip, 224).unwrap().apply(&strip, &mut out).unwrap();
    let wrong_memory = presets::clip(Tool::OpenClip, 336).unwrap().apply(&strip, &mut out).unwrap_err().to_string();
    assert!(wrong_memory.contains("338688") && wrong_memory.contains("150528"), "{wrong_memory}");
}

#[test]
fn threads_give_the_same_tensor() {
    let preprocessing = presets::inception(Tool::CleanFid).unwrap();
    let image = image(4, 123, 77);
    let expected = tensor(&preprocessing, &image);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| tensor(&preprocessing, &image))).collect();
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() == expected));
    });
}
