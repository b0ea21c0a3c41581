//! Zip archives of images.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use modelmix_encode::decode::{Limits, decode};
use modelmix_encode::samples::holds_images;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::{ids, image_files, only, refusal};
use crate::fixtures::Random;

fn write(path: &Path, entries: &[(&str, &[u8])], method: CompressionMethod) {
    let mut archive = ZipWriter::new(File::create(path).unwrap());
    for (name, bytes) in entries {
        archive.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap();
}

#[test]
fn images_of_archives_are_listed_like_those_of_folders() {
    let folder = tempfile::tempdir().unwrap();
    let files = image_files();
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let path = folder.path().join("Samples of flux.ZIP");
        let entries: Vec<(&str, &[u8])> = vec![
            ("img10.png", &files[0].1),
            ("img2.jpg", &files[1].1),
            ("deep/er\\c.webp", &files[2].1),
            ("labels.json", b"{}"),
            ("__MACOSX/._img2.jpg", b"x"),
            ("deep/.hidden.png", b"x"),
        ];
        write(&path, &entries, method);
        let (name, samples) = only(&path);
        assert_eq!(name, "Samples of flux");
        assert_eq!(ids(&samples), ["deep/er/c.webp", "img2.jpg", "img10.png"]);
        for (index, file) in [2, 1, 0].into_iter().enumerate() {
            let raw = samples.raw(index).unwrap();
            assert_eq!(raw.encoded(), Some(&files[file].1[..]));
            assert_eq!(raw.image(&Limits::default()), decode(&files[file].1, &Limits::default()));
            assert_eq!(samples.file(index), None);
        }
        assert!(holds_images(&path, None));
    }
}

/// They are listed, so that they are refused or counted, and not left out in silence.
#[test]
fn entries_that_may_lead_out_of_the_archive_have_a_problem() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zip");
    let outside = ["../up.png", "/abs.png", "C:\\disk.png", "in/../a.png"];
    let mut entries: Vec<(&str, &[u8])> = outside.map(|name| (name, &b"x"[..])).to_vec();
    entries.push(("./in/./a.png", b"x"));
    write(&path, &entries, CompressionMethod::Stored);
    let (_, samples) = only(&path);
    let mut listed = ids(&samples);
    listed.sort_unstable();
    assert_eq!(listed, ["../up.png", "/abs.png", "C:/disk.png", "in/../a.png", "in/a.png"]);
    for index in 0..samples.len() {
        match (samples.id(index), samples.raw(index)) {
            ("in/a.png", raw) => assert_eq!(raw.unwrap().encoded(), Some(&b"x"[..])),
            (id, raw) => {
                let problem = raw.unwrap_err().to_string();
                assert!(
                    problem.starts_with("the path of the entry is absolute or has \"..\" in it; "),
                    "{id}: {problem}"
                );
            }
        }
    }
}

#[test]
fn names_and_compressions_that_are_not_read_are_stated() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zip");
    write(&path, &[("one.png", b"x"), ("two.png", b"x")], CompressionMethod::Stored);
    let bytes = fs::read(&path).unwrap();
    let mut same = bytes.clone();
    for at in 0..same.len() - 7 {
        if same[at..].starts_with(b"two.png") {
            same[at..at + 7].copy_from_slice(b"one.png");
        }
    }
    fs::write(&path, same).unwrap();
    assert_eq!(refusal(&path, None), "two entries are named \"one.png\"; write the archive again");

    // The method of the first entry is at byte 8 of its own header and at byte 10 of its header in the directory.
    let at = directory(&bytes);
    let mut compressed = bytes;
    (compressed[8], compressed[at + 10]) = (12, 12);
    fs::write(&path, compressed).unwrap();
    let problem = only(&path).1.raw(0).unwrap_err().to_string();
    let expected = "the entry is compressed with bzip2, which is not read; write the archive again with deflate";
    assert_eq!(problem, expected);
}

#[test]
fn threads_read_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zip");
    let mut random = Random::new(5);
    let contents: Vec<Vec<u8>> =
        (0..60).map(|_| (0..5_000 + random.below(20_000)).map(|_| random.below(7) as u8).collect()).collect();
    let names: Vec<String> = (0..contents.len()).map(|index| format!("{index}.png")).collect();
    let entries: Vec<(&str, &[u8])> =
        names.iter().zip(&contents).map(|(name, bytes)| (name.as_str(), &bytes[..])).collect();
    write(&path, &entries, CompressionMethod::Deflated);
    let (_, samples) = only(&path);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (samples, contents) = (&samples, &contents);
            scope.spawn(move || {
                for round in 0..200 {
                    let index = (round * 7 + thread * 13) % contents.len();
                    assert_eq!(samples.raw(index).unwrap().encoded(), Some(&contents[index][..]));
                }
            });
        }
    });
}

#[test]
fn archives_without_images_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zip");
    write(&path, &[("labels.json", b"{}")], CompressionMethod::Stored);
    assert_eq!(refusal(&path, None), "the archive holds no images; add .png, .jpg, .webp, .gif or .bmp files");
    assert_eq!(refusal(&path, Some("x")), "its images are one set without a name; leave out the name \"x\"");
    fs::write(&path, b"not an archive").unwrap();
    assert!(refusal(&path, None).starts_with("the archive cannot be read ("));
    fs::write(&path, b"").unwrap();
    assert!(refusal(&path, None).starts_with("the archive cannot be read ("));
}

/// The position of the only entry in the central directory.
fn directory(bytes: &[u8]) -> usize {
    bytes.windows(4).position(|start| start == b"PK\x01\x02").unwrap()
}

#[test]
fn bombs_and_encrypted_entries_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zip");
    write(&path, &[("a.png", &vec![0; 1 << 20])], CompressionMethod::Deflated);
    let bytes = fs::read(&path).unwrap();
    let at = directory(&bytes);

    let mut claims_too_much = bytes.clone();
    claims_too_much[at + 24..at + 28].copy_from_slice(&((256 << 20) + 1_u32).to_le_bytes());
    fs::write(&path, &claims_too_much).unwrap();
    let problem = only(&path).1.raw(0).unwrap_err().to_string();
    assert_eq!(
        problem,
        "the entry claims 268435457 bytes, more than the 268435456 that an image may have; scale it down"
    );

    // It claims less than it inflates to, or more.
    for claimed in [1000_u32, 2 << 20] {
        let mut lies = bytes.clone();
        lies[at + 24..at + 28].copy_from_slice(&claimed.to_le_bytes());
        fs::write(&path, &lies).unwrap();
        let problem = only(&path).1.raw(0).unwrap_err().to_string();
        assert!(problem.starts_with("the entry is damaged ("), "{problem}");
    }

    let mut encrypted = bytes.clone();
    encrypted[at + 8] |= 1;
    encrypted[6] |= 1;
    fs::write(&path, &encrypted).unwrap();
    let problem = only(&path).1.raw(0).unwrap_err().to_string();
    assert_eq!(problem, "the entry is encrypted; write the archive again without a password");

    // The checksum of the contents.
    let mut damaged = bytes.clone();
    damaged[at + 16] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let problem = only(&path).1.raw(0).unwrap_err().to_string();
    assert!(problem.starts_with("the entry is damaged ("), "{problem}");
}

#[test]
fn damaged_archives_are_refused_or_read_without_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.zip");
    let files = image_files();
    write(&path, &[("a.png", &files[0].1), ("b/c.gif", &files[3].1)], CompressionMethod::Deflated);
    let bytes = fs::read(&path).unwrap();
    let mut cases: Vec<Vec<u8>> = (0..bytes.len()).map(|length| bytes[..length].to_vec()).collect();
    let mut random = Random::new(9);
    cases.extend((0..1_000).map(|_| random.mutated(std::slice::from_ref(&bytes))));
    let mut opened = 0;
    for case in cases {
        fs::write(&path, case).unwrap();
        let Ok(mut sets) = modelmix_encode::samples::ImageSamples::open(&path, None) else { continue };
        let (_, samples) = sets.remove(0);
        opened += 1;
        for index in 0..samples.len() {
            let _ = samples.raw(index).map(|raw| raw.image(&Limits::default()));
        }
    }
    assert!(opened > 50, "{opened}");
}
