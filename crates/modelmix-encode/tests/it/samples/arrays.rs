//! Arrays of images.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use modelmix::load::ArmSource;
use modelmix_encode::decode::Limits;
use modelmix_encode::samples::{ImageSamples, Samples, holds_images};
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::{ids, only, refusal};

/// An `.npy` file as NumPy writes it.
fn npy(element: &str, shape: &[usize], fortran: bool, bytes: &[u8]) -> Vec<u8> {
    let sides: Vec<String> = shape.iter().map(|side| format!("{side},")).collect();
    let fortran = if fortran { "True" } else { "False" };
    let mut header = format!("{{'descr': '{element}', 'fortran_order': {fortran}, 'shape': ({}), }}", sides.join(" "));
    while (10 + header.len() + 1) % 64 != 0 {
        header.push(' ');
    }
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(bytes);
    file
}

/// Distinct values for every element of an array of less than 256 × 256 elements, of which two bytes differ.
fn values(count: usize) -> Vec<u8> {
    (0..count).map(|index| (index * 37 + index / 251) as u8).collect()
}

fn npz(path: &Path, arrays: &[(&str, Vec<u8>)], method: CompressionMethod) {
    let mut archive = ZipWriter::new(File::create(path).unwrap());
    for (name, file) in arrays {
        let options = SimpleFileOptions::default().compression_method(method);
        archive.start_file(format!("{name}.npy"), options).unwrap();
        archive.write_all(file).unwrap();
    }
    archive.finish().unwrap();
}

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn npy(&self, element: &str, shape: &[usize], fortran: bool, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join("flow.npy");
        fs::write(&path, npy(element, shape, fortran, bytes)).unwrap();
        path
    }
}

/// RGB of pixel (y, x) of an image, computed from the position in the array.
type Expected = fn(values: &[u8], image: usize, y: usize, x: usize) -> [u8; 3];

const COUNT: usize = 4;
const HEIGHT: usize = 5;
const WIDTH: usize = 7;

fn check(samples: &ImageSamples, values: &[u8], expected: Expected) {
    assert_eq!(ids(samples), ["0", "1", "2", "3"]);
    // Not in order, because images are read on demand.
    for index in [2, 0, 3, 1] {
        let image = samples.raw(index).unwrap().image(&Limits::default()).unwrap();
        assert_eq!((image.width(), image.height()), (WIDTH, HEIGHT));
        for y in 0..HEIGHT {
            for x in 0..WIDTH {
                let at = (y * WIDTH + x) * 3;
                assert_eq!(image.pixels()[at..at + 3], expected(values, index, y, x), "image {index} at {y}, {x}");
            }
        }
    }
}

/// Position in an array of this shape.
fn at(index: [usize; 4], shape: [usize; 4]) -> usize {
    index.iter().zip(shape).fold(0, |place, (index, side)| place * side + index)
}

#[test]
fn all_shapes_are_read() {
    let folder = Folder::new();
    let shapes: [(Vec<usize>, Expected); 6] = [
        (vec![COUNT, HEIGHT, WIDTH], |v, i, y, x| [v[at([0, i, y, x], [1, COUNT, HEIGHT, WIDTH])]; 3]),
        (vec![COUNT, HEIGHT, WIDTH, 1], |v, i, y, x| [v[at([i, y, x, 0], [COUNT, HEIGHT, WIDTH, 1])]; 3]),
        (vec![COUNT, HEIGHT, WIDTH, 3], |v, i, y, x| [0, 1, 2].map(|c| v[at([i, y, x, c], [COUNT, HEIGHT, WIDTH, 3])])),
        (vec![COUNT, HEIGHT, WIDTH, 4], |v, i, y, x| [0, 1, 2].map(|c| v[at([i, y, x, c], [COUNT, HEIGHT, WIDTH, 4])])),
        (vec![COUNT, 1, HEIGHT, WIDTH], |v, i, y, x| [v[at([i, 0, y, x], [COUNT, 1, HEIGHT, WIDTH])]; 3]),
        (vec![COUNT, 3, HEIGHT, WIDTH], |v, i, y, x| [0, 1, 2].map(|c| v[at([i, c, y, x], [COUNT, 3, HEIGHT, WIDTH])])),
    ];
    for (shape, expected) in shapes {
        let values = values(shape.iter().product());
        let path = folder.npy("|u1", &shape, false, &values);
        let (name, samples) = only(&path);
        assert_eq!(name, "flow");
        check(&samples, &values, expected);
        for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
            let path = folder.0.path().join("two.npz");
            let other = npy("|u1", &[1, 2, 2], false, &[9; 4]);
            npz(&path, &[("first", other), ("second", npy("|u1", &shape, false, &values))], method);
            let sets = ImageSamples::open(&path, None).unwrap();
            assert_eq!(sets.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["first", "second"]);
            check(&sets[1].1, &values, expected);
            assert_eq!(sets[0].1.raw(0).unwrap().image(&Limits::default()).unwrap().pixels(), [9; 12]);
            let picked = ImageSamples::open(&path, Some("second")).unwrap().remove(0);
            assert_eq!(picked.0, "second");
            check(&picked.1, &values, expected);
        }
    }
}

#[test]
fn digests_depend_on_size_and_pixels_alone() {
    let folder = Folder::new();
    let digest = |shape: &[usize], values: &[u8]| {
        let raw = only(&folder.npy("|u1", shape, false, values)).1.raw(0).unwrap();
        assert_eq!(raw.encoded(), None);
        raw.digest()
    };
    let interleaved: Vec<u8> = vec![1, 2, 3, 4, 5, 6];
    let planes = vec![1, 4, 2, 5, 3, 6];
    let expected = {
        let mut hasher = Sha256::new();
        hasher.update(b"modelmix pixels");
        [2_u64, 1, 3].iter().for_each(|side| hasher.update(side.to_le_bytes()));
        hasher.update(&interleaved);
        <[u8; 32]>::from(hasher.finalize())
    };
    assert_eq!(digest(&[1, 1, 2, 3], &interleaved), expected);
    assert_eq!(digest(&[1, 3, 1, 2], &planes), expected);
    assert_ne!(digest(&[1, 2, 1, 3], &interleaved), expected);
    assert_ne!(digest(&[1, 1, 6], &interleaved), digest(&[1, 6, 1], &interleaved));
}

#[test]
fn labels_beside_images_are_skipped() {
    let folder = Folder::new();
    let path = folder.0.path().join("labelled.npz");
    let images = npy("|u1", &[2, 2, 2, 3], false, &values(24));
    let labels = npy("<i8", &[2], false, &[0; 16]);
    npz(&path, &[("arr_0", images.clone()), ("arr_1", labels.clone())], CompressionMethod::Stored);
    assert!(holds_images(&path, None));
    let sets = ImageSamples::open(&path, None).unwrap();
    assert_eq!(sets.iter().map(|(name, samples)| (name.as_str(), samples.len())).collect::<Vec<_>>(), [("arr_0", 2)]);
    let text = refusal(&path, Some("arr_1"));
    assert!(text.contains("the shape (2) is not that of images; "), "{text}");
    let text = refusal(&path, Some("arr_2"));
    assert_eq!(text, "there is no array named \"arr_2\" (did you mean \"arr_0\"?); pick one of arr_0, arr_1");

    // A matrix may be features.
    let matrix = npy("<f4", &[2, 1], false, &[0; 8]);
    npz(&path, &[("images", images.clone()), ("features", matrix)], CompressionMethod::Stored);
    assert!(!holds_images(&path, None));
    assert!(holds_images(&path, Some("images")) && !holds_images(&path, Some("features")));
    npz(&path, &[("labels", labels.clone()), ("more", labels)], CompressionMethod::Stored);
    assert!(!holds_images(&path, None));
    let text = refusal(&path, None);
    assert!(text.starts_with("it holds no array of 8-bit images, but labels, more; "), "{text}");

    // Arrays that may be images, or cannot be read, are not left out in silence.
    let floats = npy("<f4", &[1, 1, 1, 3], false, &[0; 12]);
    npz(&path, &[("images", images.clone()), ("more", floats)], CompressionMethod::Stored);
    assert!(refusal(&path, None).contains(":more: the elements ('<f4') are not 8-bit pixels; "));
    npz(&path, &[("images", images), ("more", npy("|O", &[2], false, &[0; 9]))], CompressionMethod::Stored);
    assert!(refusal(&path, None).contains(":more: the elements are Python objects, which are not read; "));
}

/// What `encode` says of files that have neither images nor texts.
#[test]
fn sources_that_are_not_samples_have_a_reason() {
    let folder = Folder::new();
    let refused = |name: &str, bytes: &[u8], key: Option<&str>| {
        let path = folder.0.path().join(name);
        fs::write(&path, bytes).unwrap();
        Samples::open(&ArmSource { name: None, path, key: key.map(str::to_string) }).unwrap_err().to_string()
    };
    let array = |element: &str, size: usize| npy(element, &[1, 2, 2, 3], false, &vec![0; 12 * size]);
    let both = folder.0.path().join("made.npz");
    let matrix = npy("<f4", &[2, 1], false, &[0; 8]);
    npz(&both, &[("images", array("|u1", 1)), ("features", matrix)], CompressionMethod::Stored);
    let both = fs::read(both).unwrap();
    for (name, bytes, key, reason) in [
        ("a.npy", array("<f4", 4), None, "(array * 255).round().astype(numpy.uint8) if they are 0 to 1"),
        ("a.npy", array("<u2", 2), None, "save (array // 257).astype(numpy.uint8)"),
        ("a.npy", array("<i8", 8), None, "save array.astype(numpy.uint8) if they are 0 to 255"),
        ("a.npy", array("|b1", 1), None, "save array.astype(numpy.uint8) * 255"),
        ("a.npy", vec![], None, "a.npy"),
        ("a.npy", array("|u1", 1)[..20].to_vec(), None, "a.npy"),
        ("a.npz", b"no archive".to_vec(), None, "a.npz"),
        (
            "a.npz",
            both.clone(),
            None,
            "it holds images (images) beside arrays that may be features (features); pick one",
        ),
        ("a.npz", both, Some("nope"), "there is no array named \"nope\"; pick one of images, features"),
        ("a.csv", b"id,text\n1,a\n".to_vec(), None, "a.csv:COLUMN, one of id, text"),
        ("a.parquet", vec![], None, "a.parquet"),
        ("a.parquet", b"PAR1 and no more".to_vec(), Some("text"), "a.parquet"),
        ("a.onnx", vec![], None, "it has neither images nor texts; give a folder"),
    ] {
        let message = refused(name, &bytes, key);
        assert!(message.contains(reason) && message.contains("; "), "{message}");
        assert_eq!(message.contains("neither images nor texts"), name == "a.onnx", "{message}");
    }
    let message = |path: PathBuf| Samples::open(&ArmSource { name: None, path, key: None }).unwrap_err().to_string();
    assert!(message(folder.0.path().join("gone")).ends_with("gone: it does not exist; check the path"));
    #[cfg(unix)]
    {
        assert!(message("/dev/null".into()).contains("this is not a regular file; "));
        let link = folder.0.path().join("link");
        std::os::unix::fs::symlink("nowhere", &link).unwrap();
        assert!(message(link).contains("it is a link to nowhere, which does not exist; replace the link"));
    }
}

/// Members that are no arrays may come first, as in an archive that was packed again.
#[test]
fn pixels_are_those_of_their_member() {
    let folder = Folder::new();
    let path = folder.0.path().join("packed.npz");
    let pixels = values(24);
    let mut archive = ZipWriter::new(File::create(&path).unwrap());
    let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    archive.start_file("modelmix-ids.json", stored).unwrap();
    archive.write_all(&[b' '; 500]).unwrap();
    archive.start_file("images.npy", stored).unwrap();
    archive.write_all(&npy("|u1", &[2, 2, 2, 3], false, &pixels)).unwrap();
    archive.finish().unwrap();
    let (_, samples) = only(&path);
    assert_eq!(samples.raw(1).unwrap().image(&Limits::default()).unwrap().pixels(), &pixels[12..]);
}

#[test]
fn other_arrays_are_refused() {
    let folder = Folder::new();
    let cases: [(&str, &[usize], bool, usize, &str); 7] = [
        ("<f4", &[1, 2, 2, 3], false, 48, "the elements ('<f4') are not 8-bit pixels"),
        ("|i1", &[1, 2, 2, 3], false, 12, "the elements ('|i1') are not 8-bit pixels"),
        ("|u1", &[3, 4], false, 12, "the shape (3, 4) is not that of images"),
        ("|u1", &[1, 2, 2, 2], false, 8, "the shape (1, 2, 2, 2) is not that of images"),
        ("|u1", &[0, 2, 2, 3], false, 0, "the shape (0, 2, 2, 3) has no images"),
        ("|u1", &[1, 2, 2, 3], true, 12, "the array is in Fortran order"),
        ("|u1", &[2, 2, 2, 3], false, 23, "the header claims the shape [2, 2, 2, 3] of '|u1', but 23 bytes follow it"),
    ];
    for (element, shape, fortran, bytes, expected) in cases {
        let path = folder.npy(element, shape, fortran, &vec![0; bytes]);
        let text = refusal(&path, None);
        assert!(text.starts_with(expected) && text.contains("; "), "{text}");
    }
    // A forged shape whose product overflows.
    let path = folder.npy("|u1", &[usize::MAX, usize::MAX, 3, 3], false, &[0; 9]);
    assert!(refusal(&path, None).starts_with("the header claims the shape"));
    let path = folder.npy("|u1", &[1, 1, 1], false, &[7]);
    assert_eq!(refusal(&path, Some("x")), "the file holds one array without a name; leave out the name \"x\"");
    assert!(holds_images(&path, None));
    assert!(!holds_images(&folder.npy("<f4", &[2, 2], false, &[0; 16]), None));
    assert!(!holds_images(&folder.npy("|u1", &[2, 2], false, &[0; 4]), None));
    fs::write(&path, b"no array").unwrap();
    assert!(!holds_images(&path, None));
}

#[test]
fn a_file_that_shrinks_has_a_problem() {
    let folder = Folder::new();
    let path = folder.npy("|u1", &[4, 10, 10], false, &values(400));
    let (_, samples) = only(&path);
    let length = fs::metadata(&path).unwrap().len();
    File::options().write(true).open(&path).unwrap().set_len(length - 100).unwrap();
    assert!(samples.raw(2).is_ok());
    let problem = samples.raw(3).unwrap_err().to_string();
    assert!(problem.starts_with("the array cannot be read ("), "{problem}");
}

#[test]
fn images_of_arrays_count_against_limits() {
    let folder = Folder::new();
    let (_, samples) = only(&folder.npy("|u1", &[1, 10, 10], false, &values(100)));
    let raw = samples.raw(0).unwrap();
    assert!(raw.image(&Limits { pixels: 100 }).is_ok());
    let text = raw.image(&Limits { pixels: 99 }).unwrap_err().to_string();
    assert_eq!(text, "the image claims 10 × 10 pixels, more than the 99 allowed; scale it down");
}
