//! Truncated, corrupted and forged files: each is rejected with a message, none panics, and none allocates much memory.

#[cfg(feature = "parquet")]
mod parquet;
#[cfg(feature = "parquet")]
mod tables;

use std::io::{Cursor, Write};
use std::path::Path;

use zip::CompressionMethod;
use zip::write::SimpleFileOptions;

use super::{expected, fixture, folder, refused};
use modelmix::load::{arrays, features};
use modelmix::{Error, Result};

/// An `.npy` file of version 2, whose header may be anything.
pub(super) fn npy(header: &str, payload: &[u8]) -> Vec<u8> {
    let length = (header.len() as u32).to_le_bytes();
    [b"\x93NUMPY\x02\x00", length.as_slice(), header.as_bytes(), payload].concat()
}

/// A header of 32-bit floats with the given shape.
fn shaped(shape: &str, fortran: bool) -> String {
    let order = if fortran { "True" } else { "False" };
    format!("{{'descr': '<f4', 'fortran_order': {order}, 'shape': {shape}, }}\n")
}

/// An archive of one member.
pub(super) fn archive(name: &str, bytes: &[u8], method: CompressionMethod) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    writer.start_file(name, SimpleFileOptions::default().compression_method(method)).unwrap();
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap().into_inner()
}

/// A deflated member as described by the archive's tables, correctly or not.
struct Member<'a> {
    name: &'a str,
    content: &'a [u8],
    claimed: u32,
}

/// An archive whose members are stored as uncompressed deflate blocks, listed `times` times under other names.
fn forged(member: &Member<'_>, times: usize) -> Vec<u8> {
    let mut data = Vec::new();
    let blocks: Vec<&[u8]> = member.content.chunks(65_535).collect();
    for (index, block) in blocks.iter().enumerate() {
        let length = block.len() as u16;
        data.push(u8::from(index + 1 == blocks.len()));
        data.extend([length.to_le_bytes(), (!length).to_le_bytes()].concat());
        data.extend(*block);
    }
    let fields = |name: &str| {
        let mut fields = vec![20, 0, 0, 0, 8, 0, 0, 0, 33, 0];
        fields.extend(checksum(member.content).to_le_bytes());
        fields.extend((data.len() as u32).to_le_bytes());
        fields.extend(member.claimed.to_le_bytes());
        fields.extend((name.len() as u16).to_le_bytes());
        fields.extend([0, 0]);
        fields
    };
    let mut file = [b"PK\x03\x04", fields(member.name).as_slice(), member.name.as_bytes(), &data].concat();
    let start = file.len() as u32;
    for index in 0..times {
        let name = if index == 0 { member.name.to_string() } else { format!("{index}{}", member.name) };
        file.extend([b"PK\x01\x02\x14\x00", fields(&name).as_slice(), &[0; 14], name.as_bytes()].concat());
    }
    let (size, count) = (file.len() as u32 - start, (times as u16).to_le_bytes());
    file.extend(
        [b"PK\x05\x06\0\0\0\0", count.as_slice(), &count, &size.to_le_bytes(), &start.to_le_bytes(), &[0; 2]].concat(),
    );
    file
}

fn checksum(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| if sum & 1 == 1 { sum >> 1 ^ 0xEDB8_8320 } else { sum >> 1 })
    })
}

/// A `.safetensors` file with the given header.
fn tensors(header: &str, payload: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), payload].concat()
}

/// Reads `bytes` as a file of type `extension`; running out of memory is never the reason for rejection.
fn read(folder: &Path, extension: &str, bytes: &[u8]) -> Result<()> {
    let path = folder.join(format!("file.{extension}"));
    std::fs::write(&path, bytes).unwrap();
    let result = arrays(&path).map(drop);
    if let Err(error) = &result {
        let text = error.to_string();
        assert!(!text.contains("fit into memory"), "{text}");
        assert!(text.contains("file.") && !text.contains('\n') && text.len() < 600, "{text:?}");
    }
    read_in_parts(&path, result.is_ok());
    result
}

/// Reads a file in parts. That must succeed if the file `is_good`, and may succeed if it has a single row or a wrong checksum.
fn read_in_parts(path: &Path, is_good: bool) {
    match super::shards::rows_of(path) {
        Ok(found) if is_good => {
            let expected = arrays(path).unwrap();
            let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
            for (name, features) in expected {
                assert_eq!(bits(&found[&name].1), bits(features.values()), "{name}");
            }
        }
        Ok(_) => {}
        Err(error) => {
            let text = error.to_string();
            assert!(!is_good && !text.contains("fit into memory"), "{text}");
            assert!(text.contains("file.") && !text.contains('\n') && text.len() < 600, "{text:?}");
        }
    }
}

/// One good file of each kind.
fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let parquet = ["codec_none", "codec_snappy", "codec_gzip", "codec_zstd", "codec_lz4", "version2", "columns_groups"]
        .map(|name| format!("{name}.parquet"));
    ["f4_little_c.npy", "f8_big_fortran.npy", "stored.npz", "deflated.npz", "streamed.npz", "several.safetensors"]
        .into_iter()
        .chain(parquet.iter().map(String::as_str).filter(|_| cfg!(feature = "parquet")))
        .map(|name| {
            let kind = ["npy", "npz", "safetensors", "parquet"].into_iter().find(|kind| name.ends_with(kind)).unwrap();
            (kind, std::fs::read(fixture(name)).unwrap())
        })
        .collect()
}

#[test]
fn the_forger_can_also_write_a_good_archive() {
    let folder = folder("good");
    let mut payload = Vec::new();
    expected(0.0).values().iter().for_each(|value| payload.extend(value.to_le_bytes()));
    let content = npy(&shaped("(5, 3)", false), &payload);
    let member = Member { name: "a.npy", content: &content, claimed: content.len() as u32 };
    std::fs::write(folder.join("a.npz"), forged(&member, 1)).unwrap();
    assert_eq!(features(folder.join("a.npz"), Some("a")).unwrap(), expected(0.0));
}

#[test]
fn a_file_cut_anywhere_is_refused() {
    let folder = folder("cut");
    for (extension, bytes) in samples() {
        read(&folder, extension, &bytes).unwrap();
        for length in 0..bytes.len() {
            read(&folder, extension, &bytes[..length]).expect_err(&format!("{extension} of {length} bytes"));
        }
    }
}

#[test]
fn bytes_behind_an_array_are_refused() {
    let folder = folder("behind");
    for (extension, bytes) in samples().into_iter().filter(|(kind, _)| ["npy", "safetensors"].contains(kind)) {
        let longer = [bytes.as_slice(), &[0]].concat();
        refused(read(&folder, extension, &longer), &["claims", "follow"]);
    }
    let content = npy(&shaped("(2, 2)", false), &[0; 20]);
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let result = read(&folder, "npz", &archive("a.npy", &content, method));
        refused(result, &["array a", "16 bytes, but 20 follow", "bytes after the array"]);
    }
}

#[test]
fn flipped_bytes_never_panic() {
    let folder = folder("flip");
    // SplitMix64: any generator is fine, as long as every run flips the same bytes.
    let mut state = 0_u64;
    let mut below = |limit: usize| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ mixed >> 31) % limit as u64) as usize
    };
    for (extension, bytes) in samples() {
        for _ in 0..1500 {
            let mut flipped = bytes.clone();
            for _ in 0..1 + below(4) {
                let at = below(flipped.len());
                flipped[at] = match below(3) {
                    0 => flipped[at] ^ 1 << below(8),
                    1 => [0, 0xff, 0x7f, b'9', b'(', b'\''][below(6)],
                    _ => below(256) as u8,
                };
            }
            let _ = read(&folder, extension, &flipped);
        }
    }
}

#[test]
fn forged_npy_headers_are_refused() {
    let folder = folder("header");
    for (shape, words) in [
        ("(4294967296, 4294967296)", "more than any file can hold"),
        ("(4611686018427387904, 1)", "more than any file can hold"),
        ("(18446744073709551615, 2)", "more than any file can hold"),
        ("(0, 18446744073709551615)", "more than any file can hold"),
        ("(100000000000, 3)", "1200000000000 bytes, but 16 follow"),
        ("(99999999999999999999, 3)", "below 2⁶⁴"),
        ("(-2, -2)", "not negative"),
        ("(2, 2.0)", "',' or ')'"),
        ("(2, 2", "a length that is not negative"),
        ("[2, 2]", "'('"),
        ("(4294967296, 4294967296, 4294967296)", "3 dimensions"),
        ("(2, 3)", "24 bytes, but 16 follow"),
        ("(1, 2)", "8 bytes, but 16 follow"),
    ] {
        for fortran in [false, true] {
            let content = npy(&shaped(shape, fortran), &[0; 16]);
            refused(read(&folder, "npy", &content), &[words]);
            refused(read(&folder, "npz", &archive("a.npy", &content, CompressionMethod::Deflated)), &[words]);
        }
    }
    let nested = format!("{}{}", "(".repeat(32_000), ")".repeat(32_000));
    for header in [
        String::new(),
        nested.clone(),
        shaped(&nested, false),
        "{".into(),
        "{'descr'".into(),
        "{'descr': '<f4".into(),
        "{'descr': '<f4'}".into(),
        "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2, 2)}".into(),
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 2), 'more': 1}".into(),
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (2, 2)}".into(),
        "{'descr': '', 'fortran_order': False, 'shape': (2, 2)}".into(),
        "{'descr': 'é', 'fortran_order': False, 'shape': (2, 2)}".into(),
        "{'descr': 'f4', 'fortran_order': False, 'shape': (2, 2)}".into(),
        "{'descr': '|f4', 'fortran_order': False, 'shape': (2, 2)}".into(),
        format!("{}x", shaped("(2, 2)", false)),
    ] {
        read(&folder, "npy", &npy(&header, &[0; 16])).expect_err(&header);
    }
    read(&folder, "npy", &npy(&shaped("(2L, 2L)", false), &[0; 16])).unwrap();

    let mut long = npy(&shaped("(2, 2)", false), &[0; 16]);
    long[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    refused(read(&folder, "npy", &long), &["4294967295 bytes"]);
    long[8..12].copy_from_slice(&60_000_u32.to_le_bytes());
    refused(read(&folder, "npy", &long), &["fewer than the header needs"]);
    long[6] = 4;
    refused(read(&folder, "npy", &long), &["version 4"]);
}

#[test]
fn archives_that_lie_about_sizes_are_refused() {
    let folder = folder("sizes");
    let content = npy(&shaped("(2, 2)", false), &[0; 16]);
    let length = content.len() as u32;
    for (claimed, words) in [
        (length - 1, "16 bytes, but 15 follow"),
        (length + 1, "16 bytes, but 17 follow"),
        (9, "fewer than the header needs"),
        (u32::MAX - 1, "cannot hold"),
    ] {
        let file = forged(&Member { name: "a.npy", content: &content, claimed }, 1);
        refused(read(&folder, "npz", &file), &["array a", words]);
    }
    // The member inflates to more, or to less, than table and header claim.
    let long = [content.as_slice(), &[0; 100]].concat();
    let file = forged(&Member { name: "a.npy", content: &long, claimed: length }, 1);
    refused(read(&folder, "npz", &file), &["array a", "larger than its declared"]);
    for fortran in [false, true] {
        let short = npy(&shaped("(1000, 4)", fortran), &[0; 15_000]);
        let file = forged(&Member { name: "a.npy", content: &short, claimed: short.len() as u32 + 1000 }, 1);
        let words = if fortran { "16000 bytes, but 15000 follow" } else { "end before the array does" };
        refused(read(&folder, "npz", &file), &["array a", words]);
    }
    let file = forged(&Member { name: "a.npy", content: &content, claimed: length }, 50);
    refused(read(&folder, "npz", &file), &["members claim"]);
    let mut damaged = archive("a.npy", &content, CompressionMethod::Stored);
    let at = 30 + "a.npy".len() + content.len() - 3;
    damaged[at] ^= 1;
    refused(read(&folder, "npz", &damaged), &["array a", "damaged", "checksum"]);
}

#[test]
fn a_deflate_bomb_is_bounded_by_what_it_claims() {
    let folder = folder("bomb");
    let zeros = vec![0; 30_000_000];
    let bomb = archive("a.npy", &npy(&shaped("(2, 2)", false), &zeros), CompressionMethod::Deflated);
    assert!(bomb.len() < 40_000);
    refused(read(&folder, "npz", &bomb), &["array a", "16 bytes, but 30000000 follow"]);
    let none = archive("a.npy", &zeros, CompressionMethod::Deflated);
    refused(read(&folder, "npz", &none), &["array a", "not a .npy array"]);
}

#[test]
fn archives_with_members_that_cannot_be_read_are_refused() {
    let folder = folder("members");
    let content = npy(&shaped("(2, 2)", false), &[0; 16]);
    let mut encrypted = archive("a.npy", &content, CompressionMethod::Stored);
    let central = encrypted.windows(4).position(|bytes| bytes == b"PK\x01\x02").unwrap();
    encrypted[6] |= 1;
    encrypted[central + 8] |= 1;
    refused(read(&folder, "npz", &encrypted), &["array a", "encrypted"]);
    refused(
        read(&folder, "npz", &archive("a.txt", b"text", CompressionMethod::Stored)),
        &["array a.txt", "not a .npy"],
    );
    refused(read(&folder, "npz", &archive("a\u{1b}[2J", &content, CompressionMethod::Stored)), &["printable"]);
    refused(read(&folder, "npz", &archive(".npy", &content, CompressionMethod::Stored)), &["not a valid array name"]);
    refused(read(&folder, "npz", b"this is not an archive"), &["archive cannot be read", "numpy.savez"]);

    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for name in ["a", "a.npy"] {
        writer.start_file(name, SimpleFileOptions::default().compression_method(CompressionMethod::Stored)).unwrap();
        writer.write_all(&content).unwrap();
    }
    refused(read(&folder, "npz", &writer.finish().unwrap().into_inner()), &["same name"]);
}

#[test]
fn forged_safetensors_headers_are_refused() {
    let folder = folder("tensors");
    let info = |name: &str, shape: &str, offsets: &str| {
        format!("\"{name}\":{{\"dtype\":\"F32\",\"shape\":{shape},\"data_offsets\":{offsets}}}")
    };
    let one = |shape: &str, offsets: &str| format!("{{{}}}", info("a", shape, offsets));
    let two = |first: &str, second: &str| format!("{{{},{}}}", info("a", "[2,2]", first), info("b", "[2,2]", second));
    read(&folder, "safetensors", &tensors(&two("[0,16]", "[16,32]"), &[0; 32])).unwrap();
    for header in [
        two("[0,16]", "[8,24]"),
        two("[0,16]", "[0,16]"),
        two("[0,16]", "[17,33]"),
        two("[4,20]", "[20,36]"),
        one("[2,2]", "[0,16]"),
        one("[4,2]", "[32,0]"),
        one("[4,2]", "[0,18446744073709551616]"),
        one("[4,2]", "[-1,31]"),
        one("[4294967296,4294967296]", "[0,32]"),
        one("[1000000000,2]", "[0,8000000000]"),
        one("[9223372036854775807,2]", "[0,32]"),
        one("[0,18446744073709551615]", "[0,0]"),
        one("[4,-2]", "[0,32]"),
        "{}".into(),
        "[]".into(),
        "{\"a\":1}".into(),
        "{\"a\\n\":{\"dtype\":\"F32\",\"shape\":[4,2],\"data_offsets\":[0,32]}}".into(),
        format!("{{\"a\":{{\"dtype\":\"{}\\n\"}}}}", "x".repeat(10_000)),
        "[".repeat(100_000),
        String::new(),
    ] {
        read(&folder, "safetensors", &tensors(&header, &[0; 32])).expect_err(&header);
    }
    // Eight tensors that end together just below 2⁶⁴, where adding the header's length would overflow.
    let step = (1_u64 << 61) - 16;
    let huge: Vec<String> = (0..8)
        .map(|at| info(&at.to_string(), &format!("[{},4]", step / 16), &format!("[{},{}]", at * step, (at + 1) * step)))
        .collect();
    let file = tensors(&format!("{{{}}}", huge.join(",")), &[0; 32]);
    refused(read(&folder, "safetensors", &file), &["claims 18446744073709551488 bytes"]);
    for length in [u64::MAX, u64::MAX - 7, 1 << 40, 33] {
        let bytes = [length.to_le_bytes().as_slice(), &[b' '; 32]].concat();
        refused(read(&folder, "safetensors", &bytes), &[&format!("claims {length} bytes")]);
    }
}

/// Runs the other tests of this file again with an address space of 1 GiB.
#[cfg(target_os = "linux")]
#[test]
fn hostile_files_take_little_memory() {
    let output = std::process::Command::new("sh")
        .args(["-c", "ulimit -v 1048576 && exec \"$0\" load::hostile --skip hostile_files_take --test-threads 1"])
        .arg(std::env::current_exe().unwrap())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && !text.contains("running 0 tests"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn errors_say_whether_the_file_or_the_array_is_wrong() {
    let folder = folder("kinds");
    let cut = read(&folder, "npy", &npy(&shaped("(2, 3)", false), &[0; 16])).unwrap_err();
    assert!(matches!(cut, Error::File { .. }), "{cut:?}");
    let flat = read(&folder, "npy", &npy(&shaped("(4,)", false), &[0; 16])).unwrap_err();
    assert!(matches!(flat, Error::Array { .. }), "{flat:?}");
}
