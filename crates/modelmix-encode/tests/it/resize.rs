//! Resizing against Pillow and torch, bit for bit: hashes made by `tools/golden_resize.py` with those libraries.

use modelmix_encode::Image;
use modelmix_encode::resize::{Filter, MAX_SIDE, Method, PassOrder, TorchFilter, Workspace, resize};

use crate::generator::{digest, golden, image, section, sizes};

/// All methods.
fn methods() -> Vec<Method> {
    let mut methods = vec![Method::TensorFlow1];
    for passes in [PassOrder::Pillow12, PassOrder::Pillow13] {
        for filter in Filter::ALL {
            methods.extend([Method::Pillow { filter, passes }, Method::PillowFloat { filter, passes }]);
        }
    }
    for filter in [TorchFilter::Bilinear, TorchFilter::Bicubic] {
        methods.push(Method::Torch8Bit { filter });
        methods.extend([false, true].map(|antialias| Method::Torch { filter, antialias }));
    }
    methods
}

/// The hash of a resized image in the generator's case of this number: bytes of 8-bit methods, otherwise floats.
fn hash(index: usize, method: Method, workspace: &mut Workspace) -> String {
    let [width, height, new_width, new_height] = sizes(index as u64);
    let planes = resize(&image(index as u64, width, height), new_height, new_width, method, workspace).unwrap();
    assert_eq!((planes.height(), planes.width(), planes.channels()), (new_height, new_width, 3));
    let values = planes.rows().flatten();
    let bytes: Vec<u8> = if method.is_8bit() {
        values.map(|&value| value as u8).collect()
    } else {
        values.flat_map(|value| value.to_le_bytes()).collect()
    };
    digest(&bytes)
}

/// Whether torch sums the case in an order of its own: results one pixel wide, with antialiasing.
fn one_column(index: usize, method: Method) -> bool {
    sizes(index as u64)[2] == 1 && matches!(method, Method::Torch { antialias: true, .. })
}

/// Compares all cases of a section; `method` gives the method of a case.
fn compare(file: &str, name: &str, least: usize, method: impl Fn(usize) -> Method) {
    let expected = section(&golden(file), name);
    assert!(expected.len() >= least);
    let mut workspace = Workspace::default();
    let wrong: Vec<_> = (0..expected.len())
        .filter(|&index| {
            !one_column(index, method(index)) && hash(index, method(index), &mut workspace) != expected[index]
        })
        .map(|index| (index, method(index), sizes(index as u64)))
        .collect();
    let (count, all) = (wrong.len(), expected.len());
    assert!(wrong.is_empty(), "{count} of {all} cases differ from {name} in {file}: {:?}", &wrong[..count.min(5)]);
}

#[test]
fn bytes_are_those_of_pillow_12() {
    let passes = PassOrder::Pillow12;
    compare("pillow-12.json", "pillow", 2000, |index| Method::Pillow { filter: Filter::ALL[index % 5], passes });
}

#[test]
fn bytes_are_those_of_pillow_13() {
    let passes = PassOrder::Pillow13;
    compare("pillow-13.json", "pillow", 2000, |index| Method::Pillow { filter: Filter::ALL[index % 5], passes });
}

#[test]
fn the_order_of_passes_matters_to_the_golden_hashes() {
    let [old, new] = ["pillow-12.json", "pillow-13.json"].map(|file| section(&golden(file), "pillow"));
    let differ = old.iter().zip(&new).filter(|(old, new)| old != new).count();
    assert!(differ > 100, "{differ}");
}

#[test]
fn floats_are_those_of_pillow_12() {
    let passes = PassOrder::Pillow12;
    compare("pillow-12.json", "pillow_float", 300, |index| Method::PillowFloat {
        filter: Filter::ALL[index % 5],
        passes,
    });
}

#[test]
fn floats_are_those_of_pillow_13() {
    let passes = PassOrder::Pillow13;
    compare("pillow-13.json", "pillow_float", 300, |index| Method::PillowFloat {
        filter: Filter::ALL[index % 5],
        passes,
    });
}

#[test]
fn tensorflow_1_is_that_of_torch_fidelity() {
    compare("tools.json", "tensorflow1", 200, |_| Method::TensorFlow1);
}

#[test]
fn bilinear_is_that_of_torch() {
    compare("tools.json", "bilinear", 200, |_| Method::Torch { filter: TorchFilter::Bilinear, antialias: false });
}

#[test]
fn bicubic_is_that_of_torch() {
    compare("tools.json", "bicubic", 200, |_| Method::Torch { filter: TorchFilter::Bicubic, antialias: false });
}

#[test]
fn antialiased_bilinear_is_that_of_torch() {
    compare("tools.json", "bilinear_antialias", 200, |_| Method::Torch {
        filter: TorchFilter::Bilinear,
        antialias: true,
    });
}

#[test]
fn antialiased_bicubic_is_that_of_torch() {
    compare("tools.json", "bicubic_antialias", 200, |_| Method::Torch {
        filter: TorchFilter::Bicubic,
        antialias: true,
    });
}

#[test]
fn bilinear_of_8_bits_is_that_of_torch() {
    compare("tools.json", "bilinear_8bit", 200, |_| Method::Torch8Bit { filter: TorchFilter::Bilinear });
}

#[test]
fn bicubic_of_8_bits_is_that_of_torch() {
    compare("tools.json", "bicubic_8bit", 200, |_| Method::Torch8Bit { filter: TorchFilter::Bicubic });
}

#[test]
fn a_constant_image_stays_constant_at_all_small_sizes() {
    let mut workspace = Workspace::default();
    for method in methods() {
        for (index, (from, to)) in (1..=64).flat_map(|from| (1..=64).step_by(3).map(move |to| (from, to))).enumerate() {
            // Pairs of sizes alternate between the axes; the other axis has sizes of its own.
            let other = |step: usize| 1 + (index * step + 17) % 64;
            let colour = [0, 255, (index % 256) as u8];
            let [width, height] = if index % 2 == 0 { [from, other(7)] } else { [other(7), from] };
            let [new_width, new_height] = if index % 2 == 0 { [to, other(11)] } else { [other(11), to] };
            let image = Image::new(width, height, colour.repeat(width * height)).unwrap();
            let planes = resize(&image, new_height, new_width, method, &mut workspace).unwrap();
            for (channel, &value) in colour.iter().enumerate() {
                for y in 0..new_height {
                    for &found in planes.row(channel, y) {
                        let error = (found - f32::from(value)).abs();
                        let allowed = if method.is_8bit() { 0.0 } else { 1e-3 };
                        assert!(error <= allowed, "{method:?} {width}×{height} to {new_width}×{new_height}: {found}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_method_handles_every_pair_of_small_sizes() {
    let mut workspace = Workspace::default();
    let noise = image(1, 64, 64);
    for method in methods() {
        for from in 1..=64 {
            for to in 1..=64 {
                let pixels = noise.pixels()[..3 * from * (65 - from)].to_vec();
                let image = Image::new(from, 65 - from, pixels).unwrap();
                let planes = resize(&image, 65 - to, to, method, &mut workspace).unwrap();
                assert!(planes.rows().flatten().all(|value| value.is_finite()));
            }
        }
    }
}

#[test]
fn long_rows_and_few_rows_give_the_same_as_short_ones() {
    // Rows beyond 2¹⁶ samples take another path, and so do images of one or two rows.
    let passes = PassOrder::Pillow12;
    let long = image(2, 30_000, 1);
    let tall = Image::new(1, 30_000, long.pixels().to_vec()).unwrap();
    for filter in Filter::ALL {
        for method in [Method::Pillow { filter, passes }, Method::PillowFloat { filter, passes }] {
            let wide = resize(&long, 1, 301, method, &mut Workspace::default()).unwrap();
            let high = resize(&tall, 301, 1, method, &mut Workspace::default()).unwrap();
            let repeated = Image::new(30_000, 20, long.pixels().repeat(20)).unwrap();
            let block = resize(&repeated, 20, 301, method, &mut Workspace::default()).unwrap();
            for channel in 0..3 {
                let column: Vec<f32> = (0..301).map(|y| high.row(channel, y)[0]).collect();
                assert_eq!(wide.row(channel, 0), column);
                assert!((0..20).all(|y| block.row(channel, y) == column));
            }
        }
    }
}

#[test]
fn sizes_that_no_image_can_have_are_refused() {
    let image = image(0, 3, 2);
    for (height, width) in [(0, 5), (5, 0), (MAX_SIDE + 1, 1), (1, usize::MAX)] {
        for method in methods() {
            let problem = resize(&image, height, width, method, &mut Workspace::default()).unwrap_err().to_string();
            assert!(problem.contains(&format!("{width} × {height}")), "{problem}");
        }
    }
}

#[test]
fn methods_are_stable_readable_data() {
    let json = |method: Method| serde_json::to_string(&method).unwrap();
    let passes = PassOrder::Pillow13;
    assert_eq!(
        json(Method::Pillow { filter: Filter::Bicubic, passes }),
        r#"{"library":"pillow","filter":"bicubic","passes":"pillow-13"}"#
    );
    assert_eq!(json(Method::TensorFlow1), r#"{"library":"tensorflow-1"}"#);
    for method in methods() {
        assert_eq!(serde_json::from_str::<Method>(&json(method)).unwrap(), method);
    }
}
