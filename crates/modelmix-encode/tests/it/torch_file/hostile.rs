//! Files that are cut, changed or made to exhaust a reader: an error in bounded time and memory, never a panic.

use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use modelmix_encode::torch_file::{Tensor, Values, tensors};
use proptest::prelude::*;
use tempfile::TempDir;
use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

use crate::models::fixture;

type Tensors = modelmix::Result<BTreeMap<String, Tensor>>;

fn read(folder: &TempDir, bytes: &[u8]) -> Tensors {
    let path = folder.path().join("weights.pth");
    std::fs::write(&path, bytes).unwrap();
    tensors(&path)
}

#[track_caller]
fn refused(bytes: &[u8], because: &str) {
    let folder = TempDir::new().unwrap();
    let start = Instant::now();
    let said = read(&folder, bytes).unwrap_err().to_string();
    assert!(said.contains(because), "{said}");
    assert!(start.elapsed() < Duration::from_secs(20), "{said} after {:?}", start.elapsed());
}

/// An archive with this pickle and one storage of four floats.
fn archive(pickle: &[u8], method: CompressionMethod) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(method);
    for (name, content) in [("data.pkl", pickle), ("data/0", [0; 16].as_slice())] {
        zip.start_file(format!("weights/{name}"), options).unwrap();
        zip.write_all(content).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// One bit of a tensor is not noticed by anything but the archive's checksum.
#[test]
fn damaged_tensors_are_refused() {
    let mut bytes = std::fs::read(fixture("thin_inception.pth")).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    refused(&bytes, "cannot be read (Invalid checksum); download it again");
}

#[track_caller]
fn pickle_refused(pickle: &[u8], because: &str) {
    refused(&archive(pickle, CompressionMethod::Stored), because);
}

fn text(text: &str) -> Vec<u8> {
    [b"X", u32::try_from(text.len()).unwrap().to_le_bytes().as_slice(), text.as_bytes()].concat()
}

/// An integer of 64 bits.
fn integer(number: i64) -> Vec<u8> {
    [b"\x8a\x08", number.to_le_bytes().as_slice()].concat()
}

/// The storage "0" of `count` floats.
fn storage(count: i64) -> Vec<u8> {
    [
        b"(".to_vec(),
        text("storage"),
        b"ctorch\nFloatStorage\n".to_vec(),
        text("0"),
        text("cpu"),
        integer(count),
        b"tQ".to_vec(),
    ]
    .concat()
}

/// A tensor of a storage of `count` floats.
fn tensor(count: i64, offset: i64, shape: &[i64], strides: &[i64]) -> Vec<u8> {
    let tuple = |numbers: &[i64]| {
        let numbers: Vec<u8> = numbers.iter().flat_map(|&number| integer(number)).collect();
        [b"(".as_slice(), &numbers, b"t"].concat()
    };
    let end = b"\x89ccollections\nOrderedDict\n)RtR".to_vec();
    let start = b"ctorch._utils\n_rebuild_tensor_v2\n(".to_vec();
    [start, storage(count), integer(offset), tuple(shape), tuple(strides), end].concat()
}

/// A dict with one entry.
fn dict(value: &[u8]) -> Vec<u8> {
    [b"\x80\x02}", text("a").as_slice(), value, b"s."].concat()
}

#[test]
fn the_hand_made_archive_is_sound() {
    // Control: what the tests below forge is read if it is not forged.
    let folder = TempDir::new().unwrap();
    let bytes = archive(&dict(&tensor(4, 1, &[1, 2], &[2, 1])), CompressionMethod::Stored);
    let found = read(&folder, &bytes).unwrap();
    assert_eq!(found["a"].shape(), [1, 2]);
    assert_eq!(found["a"].values(), &Values::Floats(vec![0.0, 0.0]));
}

#[test]
fn every_truncation_is_refused() {
    let folder = TempDir::new().unwrap();
    for file in ["state.pth", "legacy.pth", "script.pt"] {
        let bytes = std::fs::read(fixture(file)).unwrap();
        for length in (0..bytes.len()).step_by(3) {
            assert!(read(&folder, &bytes[..length]).is_err(), "{file} cut to {length} bytes");
        }
    }
}

#[test]
fn every_changed_byte_is_survived() {
    let folder = TempDir::new().unwrap();
    for file in ["legacy.pth", "state.pth"] {
        let bytes = std::fs::read(fixture(file)).unwrap();
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1 << (place % 8);
            let _ = read(&folder, &changed);
            changed[place] = 0xff;
            let _ = read(&folder, &changed);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any bytes as a pickle: the opcodes are chosen often, so that the stack is deep enough for most.
    #[test]
    fn any_pickle_is_survived(opcodes in prop::collection::vec(
        prop_oneof![
            prop::sample::select(b"(.012NIJKMLQRSTUVXabcdeghijlopqrstu}])\x80\x81\x85\x86\x87\x88\x89\x8a\x8c\x93\x94".to_vec()),
            any::<u8>(),
        ],
        0..200,
    )) {
        let folder = TempDir::new().unwrap();
        let _ = read(&folder, &archive(&[b"\x80\x02}NN]".as_slice(), &opcodes, b"."].concat(), CompressionMethod::Stored));
    }
}

#[test]
fn other_files_are_refused() {
    for bytes in [b"".as_slice(), b"PK", b"\x89PNG\r\n\x1a\n", b"\x80\x02", &[0; 100]] {
        refused(bytes, "neither a zip archive nor an older file of torch.save");
    }
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    zip.start_file("readme.txt", SimpleFileOptions::default().compression_method(CompressionMethod::Stored)).unwrap();
    refused(&zip.finish().unwrap().into_inner(), "without data.pkl");
    refused(&archive(&dict(b"N"), CompressionMethod::Deflated), "is compressed");
    assert!(matches!(tensors(Path::new("/nowhere/weights.pth")), Err(modelmix::Error::Io { .. })));
    assert!(tensors(TempDir::new().unwrap().path()).is_err());
}

#[test]
fn nesting_loops_and_repetition_are_bounded() {
    // A list in a list in a list …
    pickle_refused(&[vec![b']'; 1_000_000], vec![b'a'; 999_999], b".".to_vec()].concat(), "nested too deeply");
    // A dict that contains itself.
    pickle_refused(&[b"}q\x00", text("a").as_slice(), b"h\x00s."].concat(), "contain themselves");
    // Each list holds the one before it ten times: 10⁵⁰ paths.
    let mut laughs = b"]q\x00".to_vec();
    for level in 0..50_u8 {
        let again = [b'h', level].repeat(10);
        laughs.extend([b"](", again.as_slice(), b"eq", &[level + 1]].concat());
    }
    laughs.push(b'.');
    pickle_refused(&laughs, "too many or nested too deeply");
    // A name of 2 MB.
    let key = text(&"k".repeat(100_000));
    let mut named = b"N".to_vec();
    for _ in 0..20 {
        named = [b"}".as_slice(), &key, &named, b"s"].concat();
    }
    pickle_refused(&[named.as_slice(), b"."].concat(), "nested too deeply");
    pickle_refused(&vec![b'N'; 5_000_000], "more than 4000000 values");
    // The same 100,000 pairs, made into a dict 100,000 times.
    let pairs = b"NN\x86".repeat(100_000);
    let calls = b"ccollections\nOrderedDict\nh\x00\x85R0".repeat(100_000);
    pickle_refused(&[b"](", pairs.as_slice(), b"eq\x00", &calls, b"."].concat(), "more than 4000000 values");
}

#[test]
fn forged_lengths_are_refused() {
    pickle_refused(b"\x8b\xff\xff\xff\x7f1234.", "ends in the middle");
    pickle_refused(b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff1234.", "ends in the middle");
    pickle_refused(b"X\xff\xff\xff\xffabc.", "ends in the middle");
    pickle_refused(b"h\x07.", "refers to a value that it never made");
    pickle_refused(b".", "takes more values than it has");
    pickle_refused(b"NNt.", "closes a group that it never opened");
    pickle_refused(b"NNs.", "takes more values than it has");
    pickle_refused(b"NNNs.", "adds items to a value that holds none");
    pickle_refused(b"}(Nu.", "a key that has no value");
    pickle_refused(b"(N\x82.", "the opcode 0x82");
    pickle_refused(b"V\xff\xfe\n.", "not UTF-8");
    // A long of 255 bytes is a number that no tensor needs.
    let folder = TempDir::new().unwrap();
    let long = [b"\x8a\xff".as_slice(), &[1; 255]].concat();
    assert!(read(&folder, &archive(&dict(&long), CompressionMethod::Stored)).unwrap().is_empty());
}

#[test]
fn forged_tensors_are_refused() {
    let forged = |count, offset, shape: &[i64], strides: &[i64], because| {
        pickle_refused(&dict(&tensor(count, offset, shape, strides)), because);
    };
    forged(4, 0, &[5], &[1], "larger than its storage of 4");
    forged(4, 3, &[2], &[1], "larger than its storage of 4");
    forged(4, 0, &[2], &[i64::MAX], "larger than its storage of 4");
    forged(4, 0, &[3, 3], &[i64::MAX, i64::MAX], "larger than its storage of 4");
    forged(4, 0, &[i64::MAX, i64::MAX], &[0, 0], "larger than its storage of 4");
    forged(4, -1, &[1], &[1], "offset is -1");
    forged(4, 0, &[-1], &[1], "size is -1");
    forged(4, 0, &[1, 1], &[1], "more sizes than strides");
    forged(4, 0, &[1; 17], &[1; 17], "17 dimensions");
    // A stride of 0 repeats one element a billion times.
    forged(4, 0, &[1_000_000_000], &[0], "too many for a file");
    // The storage says more than its entry holds.
    forged(5, 0, &[5], &[1], "has 16 bytes, but tensors need 20");
    forged(i64::MAX, 0, &[1], &[1], "too large");
    let elsewhere = String::from_utf8_lossy(&storage(4)).replace("FloatStorage", "QInt8Storage").into_bytes();
    pickle_refused(&dict(&elsewhere), "torch.QInt8Storage");
}
