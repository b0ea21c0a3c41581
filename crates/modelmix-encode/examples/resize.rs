//! The time of one resize by each method and of whole presets, on one core.

use std::hint::black_box;
use std::time::Instant;

use modelmix_encode::Image;
use modelmix_encode::preprocess::{Tool, presets};
use modelmix_encode::resize::{Filter, Method, PassOrder, Workspace, resize};

fn main() {
    let passes = PassOrder::Pillow13;
    for (width, height, side) in [(512, 512, 299), (1024, 1024, 224), (64, 64, 299), (640, 427, 224)] {
        let mut state = 1_u32;
        let mut byte = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let pixels = (0..3 * width * height).map(|_| byte()).collect();
        let Ok(image) = Image::new(width, height, pixels) else { continue };
        let mut workspace = Workspace::default();
        for filter in [Filter::Bilinear, Filter::Bicubic, Filter::Lanczos] {
            for method in [Method::Pillow { filter, passes }, Method::PillowFloat { filter, passes }] {
                let seconds = fastest(|| {
                    let _ = black_box(resize(black_box(&image), side, side, method, &mut workspace));
                });
                println!("{width}x{height} to {side}, {method:?}: {:.3} ms", seconds * 1e3);
            }
        }
        for tool in [Tool::TorchFidelity, Tool::CleanFid, Tool::PytorchFid] {
            let Ok(preset) = presets::inception(tool) else { continue };
            let mut out = vec![0.0; 3 * 299 * 299];
            let seconds = fastest(|| {
                let _ = black_box(preset.apply(black_box(&image), &mut out));
            });
            println!("{width}x{height}, whole preset {tool}: {:.3} ms", seconds * 1e3);
        }
        for tool in [Tool::OpenClip, Tool::HuggingFace] {
            let Ok(preset) = presets::clip(tool, 224) else { continue };
            let mut out = vec![0.0; 3 * 224 * 224];
            let seconds = fastest(|| {
                let _ = black_box(preset.apply(black_box(&image), &mut out));
            });
            println!("{width}x{height}, whole preset {tool}: {:.3} ms", seconds * 1e3);
        }
    }
}

/// The shortest time of one call, over half a second of calls.
fn fastest(mut call: impl FnMut()) -> f64 {
    let start = Instant::now();
    let mut best = f64::INFINITY;
    while start.elapsed().as_secs_f64() < 0.5 {
        let begin = Instant::now();
        call();
        best = best.min(begin.elapsed().as_secs_f64());
    }
    best
}
