//! The first step of the demo: images of real generators are written as PNG files and encoded, as a user's folders are.

use std::path::Path;

use modelmix::load::{self, ArmSource, Pictures};

use crate::args::{Common, EncoderArgs};
use crate::encoding::Encoding;
use crate::error::{Failure, Result};
use crate::files;
use crate::terminal::{Terminal, bold, count};

/// Encodes the images of the first scenario and compares the features with the recorded ones, which are of the same images.
pub(super) fn encode(folder: &Path, common: &Common, terminal: &Terminal) -> Result<()> {
    terminal.say(bold("── images ──"));
    let archive = ArmSource { name: None, path: folder.join("images/specialists.npz"), key: None };
    let arms = load::pictures(&[archive], usize::MAX)?;
    for (name, pictures) in &arms {
        write(&folder.join("png").join(name), pictures)?;
    }
    let images: usize = arms.iter().map(|(_, pictures)| pictures.len()).sum();
    terminal.remark(format!("Encoding {} PNG files of {} generators …", count(images), arms.len()));
    let args = EncoderArgs {
        encoder: Some(folder.join("encoder.onnx").to_string_lossy().into_owned()),
        no_cache: true,
        ..EncoderArgs::default()
    };
    let encoding = Encoding::open(&args, None, common, terminal)?;
    let mut largest: f32 = 0.0;
    for (name, _) in &arms {
        let source = ArmSource { name: None, path: folder.join("png").join(name), key: None };
        let encoded = encoding.encode(encoding.one_set(&source)?)?;
        let recorded = load::features(folder.join("specialists.npz"), Some(name))?;
        for (row, expected) in encoded.features.view().iter().zip(recorded.view().iter()) {
            let difference = row.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            largest = largest.max(difference);
        }
    }
    terminal.say(format!(
        "{} images of {} generators became {} features each. They differ from the recorded features, which are rounded to 16 bits, by at most {largest:.2}.",
        count(images),
        arms.len(),
        count(encoding.encoder().width()),
    ));
    terminal.say("The rest of the demo uses the recorded features of more samples.\n");
    Ok(())
}

/// Writes pictures as PNG files, in their order.
fn write(folder: &Path, pictures: &Pictures) -> Result<()> {
    let Pictures::Raw { height, width, channels: 1, pixels, .. } = pictures else {
        return Err(Failure::input("the demo's images are not grey; this is a bug"));
    };
    files::make_folder(folder)?;
    for (index, pixels) in pixels.chunks_exact(height * width).enumerate() {
        let mut bytes = Vec::new();
        let mut encoder = png::Encoder::new(&mut bytes, *width as u32, *height as u32);
        encoder.set_color(png::ColorType::Grayscale);
        let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(pixels));
        written.map_err(|error| Failure::input(format!("an image of the demo cannot be written: {error}")))?;
        let path = folder.join(format!("{index}.png"));
        std::fs::write(&path, bytes).map_err(|error| Failure::Write(path, error))?;
    }
    Ok(())
}
