//! Images and texts that a program lists: files from anywhere, bytes of image files, pixels and texts in memory.

use std::fs;

use modelmix_encode::decode::Limits;
use modelmix_encode::samples::{ImageSamples, ListedImage, TextSamples};

/// A 2 × 1 image as binary BMP: a header of 14 bytes, one of 40, and rows of blue, green and red, padded to 4 bytes.
fn bmp(pixels: [[u8; 3]; 2]) -> Vec<u8> {
    let mut bytes = b"BM".to_vec();
    bytes.extend(62_u32.to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(54_u32.to_le_bytes());
    for value in [40_u32, 2, 1] {
        bytes.extend(value.to_le_bytes());
    }
    bytes.extend(1_u16.to_le_bytes());
    bytes.extend(24_u16.to_le_bytes());
    bytes.extend([0; 24]);
    for [red, green, blue] in pixels {
        bytes.extend([blue, green, red]);
    }
    bytes.extend([0; 2]);
    bytes
}

#[test]
fn files_bytes_and_pixels_are_one_list() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("one.bmp");
    fs::write(&path, bmp([[1, 2, 3], [4, 5, 6]])).unwrap();
    let images = ImageSamples::listed(vec![
        ("file".into(), ListedImage::file_at(path.clone())),
        ("bytes".into(), ListedImage::encoded(bmp([[7, 8, 9], [10, 11, 12]]))),
        ("grey".into(), ListedImage::pixels(2, 1, 1, vec![20, 30]).unwrap()),
        ("alpha".into(), ListedImage::pixels(2, 1, 4, vec![1, 2, 3, 0, 4, 5, 6, 255]).unwrap()),
        ("missing".into(), ListedImage::file_at(folder.path().join("no.png"))),
    ])
    .unwrap();
    let pixels = |index| images.raw(index).unwrap().image(&Limits::default()).unwrap().pixels().to_vec();
    assert_eq!(images.len(), 5);
    assert_eq!(pixels(0), [1, 2, 3, 4, 5, 6]);
    assert_eq!(pixels(1), [7, 8, 9, 10, 11, 12]);
    assert_eq!(pixels(2), [20, 20, 20, 30, 30, 30]);
    assert_eq!(pixels(3), [1, 2, 3, 4, 5, 6]);
    assert!(images.raw(4).unwrap_err().to_string().contains("does not exist"));
    assert_eq!((images.id(0), images.file(0), images.file(1)), ("file", Some(path), None));
    let digests: Vec<[u8; 32]> = (0..4).map(|index| images.raw(index).unwrap().digest()).collect();
    assert!((1..4).all(|index| !digests[..index].contains(&digests[index])));
}

#[test]
fn lists_that_are_not_images_are_refused() {
    assert!(ImageSamples::listed(Vec::new()).unwrap_err().to_string().contains("no images"));
    for (width, height, channels, bytes) in [(2, 2, 3, 11), (2, 2, 2, 8), (0, 4, 3, 0), (usize::MAX, 2, 3, 6)] {
        let problem = ListedImage::pixels(width, height, channels, vec![0; bytes]).unwrap_err();
        assert!(problem.to_string().contains("1, 3 or 4 channels"), "{problem}");
    }
}

#[test]
fn texts_in_memory_have_rows_as_ids() {
    let texts: TextSamples = ["a cat", "", "🐈"].into_iter().collect();
    assert_eq!((0..texts.len()).map(|row| texts.text(row)).collect::<Vec<_>>(), ["a cat", "", "🐈"]);
    assert_eq!(texts.id(2), "2");
}
