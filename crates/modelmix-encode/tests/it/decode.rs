//! Decoders: the pixels of Pillow, and a sentence for everything else.

use modelmix_encode::Image;
use modelmix_encode::decode::{Limits, decode, mime};
use sha2::{Digest, Sha256};

use crate::fixtures::{self, Pixels, Random};

const FORMATS: [&str; 5] = ["png", "jpg", "webp", "gif", "bmp"];

fn pixels(image: &Image) -> Pixels {
    let sha256 = Sha256::digest(image.pixels()).iter().map(|byte| format!("{byte:02x}")).collect();
    Pixels { width: image.width(), height: image.height(), sha256 }
}

fn refusal(bytes: &[u8]) -> String {
    decode(bytes, &Limits::default()).unwrap_err().to_string()
}

#[test]
fn pixels_equal_those_of_pillow() {
    let files = fixtures::files();
    let golden = fixtures::golden();
    assert!(golden.files.len() > 300);
    assert!(golden.files.iter().filter(|case| case.pixels.is_none()).count() < 20);
    let mut wrong = Vec::new();
    for case in &golden.files {
        let found = decode(&files[&case.file], &Limits::default());
        match (&found, &case.pixels) {
            (Ok(image), Some(expected)) if pixels(image) == *expected => {}
            (Err(_), None) => {}
            (Ok(image), expected) => wrong.push(format!("{}: {:?}, not {expected:?}", case.file, pixels(image))),
            (Err(problem), Some(_)) => wrong.push(format!("{}: {problem}", case.file)),
        }
    }
    assert!(wrong.is_empty(), "{} files differ:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_format_has_its_mime_type() {
    let expected = ["image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp"];
    for (format, expected) in FORMATS.iter().zip(expected) {
        let files = fixtures::files_of(format);
        for (name, bytes) in files.iter().filter(|(name, _)| !name.contains("/dib")) {
            assert_eq!(mime(bytes), Some(expected), "{name}");
        }
    }
    assert_eq!(mime(b"text"), None);
}

#[test]
fn other_formats_are_named() {
    let files = fixtures::files();
    for (file, expected) in [
        ("other/image.tiff", "the file is a TIFF image; save it as PNG, JPEG, WebP, GIF or BMP"),
        ("other/image.avif", "the file is an AVIF image; save it as PNG, JPEG, WebP, GIF or BMP"),
        ("other/image.ppm", "the file is a PPM image; save it as PNG, JPEG, WebP, GIF or BMP"),
        ("other/image.jpeg2000", "the file is a JPEG 2000 image; save it as PNG, JPEG, WebP, GIF or BMP"),
        ("other/image.ico", "the file is not an image of a known format; save it as PNG, JPEG, WebP, GIF or BMP"),
    ] {
        assert_eq!(refusal(&files[file]), expected, "{file}");
    }
    assert_eq!(refusal(b""), "the file is empty; write or copy it again");
    assert_eq!(
        refusal(b"{\"a\": 1}"),
        "the file is not an image of a known format; save it as PNG, JPEG, WebP, GIF or BMP"
    );
}

#[test]
fn rare_variants_are_named() {
    let files = fixtures::files();
    assert_eq!(
        refusal(&files["bmp/fields32-8-header124.bmp"]),
        "the BMP file has a rare order of channels, which is not supported; save it as PNG"
    );
    // Samples of 12 bits, and two channels.
    let jpeg = files["jpg/baseline-L.jpg"].clone();
    let frame = jpeg.windows(2).position(|marker| marker == [0xff, 0xc0]).unwrap();
    let mut twelve_bits = jpeg.clone();
    twelve_bits[frame + 4] = 12;
    assert_eq!(refusal(&twelve_bits), "the JPEG file has samples of 12 bits, which is not supported; save it as PNG");
}

#[test]
fn truncated_files_are_refused_unless_all_pixels_are_there() {
    for (name, bytes) in fixtures::files() {
        let Ok(whole) = decode(&bytes, &Limits::default()) else { continue };
        let mut read = 0;
        for length in 0..bytes.len() {
            match decode(&bytes[..length], &Limits::default()) {
                Ok(image) => {
                    assert_eq!(image, whole, "{name} cut to {length} bytes");
                    read += 1;
                }
                Err(problem) => {
                    assert!(!problem.to_string().contains("decoder failed"), "{name} cut to {length} bytes: {problem}")
                }
            }
        }
        // What may be missing: the end of a file, padding, bytes after it, later frames.
        let expendable = if name.contains("animated") { bytes.len() } else { 80 };
        assert!(read <= expendable, "{name}: {read} of {} lengths were read", bytes.len());
    }
}

/// At least 20,000 mutations per format: no panic, and one sentence for each file that is refused.
#[test]
fn mutated_files_are_decoded_or_refused_in_one_sentence() {
    const MUTATIONS: usize = 20_000;
    let limits = Limits { pixels: 1 << 16 };
    for (seed, format) in (1..).zip(FORMATS) {
        let mut random = Random::new(seed);
        let seeds: Vec<Vec<u8>> = fixtures::files_of(format).into_iter().map(|(_, bytes)| bytes).collect();
        let (mut decoded, mut refused) = (0, 0);
        for case in 0..MUTATIONS {
            let file = random.mutated(&seeds);
            match decode(&file, &limits) {
                Ok(image) => {
                    assert!((image.width() * image.height()) as u64 <= limits.pixels);
                    decoded += 1;
                }
                Err(problem) => {
                    let text = problem.to_string();
                    assert!(!text.contains("decoder failed"), "{format}, case {case}: {text}");
                    assert!(text.contains("; ") && !text.contains('\n') && text.len() < 300, "{format}: {text}");
                    refused += 1;
                }
            }
        }
        assert!(
            decoded > MUTATIONS / 100 && refused > MUTATIONS / 10,
            "{format}: {decoded} decoded, {refused} refused"
        );
    }
}

/// Replaces the size in the header of a file of each format; the checksum of PNG's header too.
fn resized(format: &str, width: u32, height: u32) -> Vec<u8> {
    let files = fixtures::files();
    let put = |file: &str, at: usize, values: &[u8]| {
        let mut bytes = files[file].clone();
        bytes[at..at + values.len()].copy_from_slice(values);
        bytes
    };
    let short = |side: u32| side as u16;
    match format {
        "png" => {
            let mut bytes = put("png/colour2-depth8.png", 16, &[width.to_be_bytes(), height.to_be_bytes()].concat());
            let sum = crc32fast::hash(&bytes[12..29]);
            bytes[29..33].copy_from_slice(&sum.to_be_bytes());
            bytes
        }
        "jpg" => {
            let bytes = &files["jpg/baseline-L.jpg"];
            let frame = bytes.windows(2).position(|marker| marker == [0xff, 0xc0]).unwrap();
            let size = [short(height).to_be_bytes(), short(width).to_be_bytes()].concat();
            put("jpg/baseline-L.jpg", frame + 5, &size)
        }
        "webp" => {
            let size = [&(width - 1).to_le_bytes()[..3], &(height - 1).to_le_bytes()[..3]].concat();
            put("webp/canvas.webp", 24, &size)
        }
        "gif" => put("gif/smaller.gif", 6, &[short(width).to_le_bytes(), short(height).to_le_bytes()].concat()),
        _ => put("bmp/bits24-header40.bmp", 18, &[width.to_le_bytes(), height.to_le_bytes()].concat()),
    }
}

#[test]
fn sizes_are_refused_by_the_header_alone() {
    for format in FORMATS {
        // 900 million pixels in a file of a few hundred bytes.
        let text = refusal(&resized(format, 30_000, 30_000));
        let expected = "the image claims 30000 × 30000 pixels, more than the 178956970 allowed; scale it down";
        assert_eq!(text, expected, "{format}");
    }
    // The largest sizes of the formats, whose product overflows 32 bits, and 64 bits with channels.
    for (format, width, height) in
        [("png", 0x7fff_ffff, 0x7fff_ffff), ("bmp", 0x7fff_ffff, 0x7fff_ffff), ("webp", 1 << 24, 1 << 24)]
    {
        assert!(refusal(&resized(format, width, height)).contains("more than the 178956970 allowed"), "{format}");
    }
    // The largest sides of lossless WebP, which are 14 bits behind the signature, less 1.
    let mut webp = fixtures::files().remove("webp/lossless-RGB-method0.webp").unwrap();
    webp[21..25].copy_from_slice(&0x0fff_ffff_u32.to_le_bytes());
    assert!(refusal(&webp).contains("claims 16384 × 16384 pixels"));
    assert!(refusal(&resized("bmp", (-5_i32).cast_unsigned(), 4)).contains("its width is -5 pixels"));
}

#[test]
fn sizes_within_the_limit_need_the_bytes_of_an_image() {
    // 169 million pixels, below the limit: refused, and quickly, because the bytes are not there.
    for format in ["png", "jpg", "webp", "bmp"] {
        let start = std::time::Instant::now();
        let text = refusal(&resized(format, 13_000, 13_000));
        assert!(text.contains("truncated") || text.contains("damaged"), "{format}: {text}");
        assert!(start.elapsed().as_secs() < 5, "{format} took {:?}", start.elapsed());
    }
}

#[test]
fn limits_count_pixels() {
    let files = fixtures::files();
    for file in [
        "png/colour2-depth8.png",
        "jpg/baseline-L.jpg",
        "webp/lossless-RGB-method0.webp",
        "gif/bits8.gif",
        "bmp/bits8.bmp",
    ] {
        let image = decode(&files[file], &Limits::default()).unwrap();
        let pixels = (image.width() * image.height()) as u64;
        assert_eq!(decode(&files[file], &Limits { pixels }).unwrap(), image, "{file}");
        let text = decode(&files[file], &Limits { pixels: pixels - 1 }).unwrap_err().to_string();
        let (width, height) = (image.width(), image.height());
        let expected =
            format!("the image claims {width} × {height} pixels, more than the {} allowed; scale it down", pixels - 1);
        assert_eq!(text, expected, "{file}");
    }
}

/// A profile of a gigabyte of zeros, compressed to a megabyte, in front of a small image.
#[test]
fn compressed_metadata_is_not_inflated() {
    let bytes = &fixtures::files()["png/colour2-depth8.png"];
    let expected = decode(bytes, &Limits::default()).unwrap();
    let mut bomb = b"name\0\0".to_vec();
    bomb.extend(deflated_zeros(1 << 30));
    for kind in [b"iCCP", b"zTXt"] {
        let mut chunk = kind.to_vec();
        chunk.extend(&bomb);
        let mut file = bytes[..33].to_vec();
        file.extend((bomb.len() as u32).to_be_bytes());
        file.extend(&chunk);
        file.extend(crc32fast::hash(&chunk).to_be_bytes());
        file.extend(&bytes[33..]);
        let start = std::time::Instant::now();
        assert_eq!(decode(&file, &Limits::default()).unwrap(), expected);
        assert!(start.elapsed().as_millis() < 500, "{:?}", start.elapsed());
    }
}

/// A zlib stream of about `count` zeros, without its checksum.
fn deflated_zeros(count: usize) -> Vec<u8> {
    // A block with fixed codes: the literal 0 (00110000), then matches of length 258 (11000101) at distance 1 (00000).
    let mut bits: Vec<bool> = vec![true, true, false];
    bits.extend([false, false, true, true, false, false, false, false]);
    for _ in 0..count / 258 {
        bits.extend([true, true, false, false, false, true, false, true]);
        bits.extend([false; 5]);
    }
    bits.extend([false; 7]);
    let mut out = vec![0x78, 0x9c];
    out.extend(bits.chunks(8).map(|byte| byte.iter().rev().fold(0, |sum, &bit| sum << 1 | u8::from(bit))));
    out
}
