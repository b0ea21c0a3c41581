//! Folders of images.

use std::fs;
use std::path::Path;

use modelmix_encode::decode::{Limits, decode};
use modelmix_encode::samples::{ImageSamples, holds_images};
use sha2::{Digest, Sha256};

use super::{ids, image_files, only, refusal};
use crate::fixtures::Random;

fn write(folder: &Path, name: &str, bytes: &[u8]) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn images_are_in_natural_order_whatever_order_they_were_written_in() {
    // Sorted by hand: folder by folder, numbers by value, and everything else byte by byte, as the equal 02 and 2.
    let expected = [
        "1.png",
        "02.png",
        "2.png",
        "10.png",
        "0100.png",
        "a/1/x.png",
        "a/2/x.png",
        "a/10/x.png",
        "a-b/1.png",
        "a1.png",
        "b.png",
        "img1-9.png",
        "img1-10.png",
        "img2.png",
        "img10.png",
        "img10a.png",
        "img99999999999999999999999998.png",
        "img99999999999999999999999999.png",
        "z2/a.png",
        "z10/a.png",
        "Ä.png",
    ];
    for seed in 1..4 {
        let folder = tempfile::tempdir().unwrap();
        let mut names = expected;
        let mut random = Random::new(seed);
        for at in (1..names.len()).rev() {
            names.swap(at, random.below(at + 1));
        }
        for name in names {
            write(folder.path(), name, b"x");
        }
        let (_, samples) = only(folder.path());
        assert_eq!(ids(&samples), expected);
    }
}

#[test]
fn only_images_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let listed = ["A.PNG", "b.JpEg", "c.jfif", "d.webp", "deep/er/e.bmp", "f.dib", "g.gif", "h.jpe", "i.tif"];
    let skipped = [
        "labels.json",
        "captions.txt",
        "Thumbs.db",
        ".DS_Store",
        ".hidden.png",
        "._a.png",
        ".cache/x.png",
        "__MACOSX/x.png",
        "noextension",
        "png",
        "archive.zip",
        "x.png.part",
    ];
    for name in listed.iter().chain(&skipped) {
        write(folder.path(), name, b"x");
    }
    let (_, samples) = only(folder.path());
    assert_eq!(ids(&samples), listed);
    for (index, name) in listed.iter().enumerate() {
        assert_eq!(samples.file(index).unwrap(), folder.path().join(name));
    }
}

#[test]
fn images_are_decoded_by_content() {
    let folder = tempfile::tempdir().unwrap();
    let files = image_files();
    // Every file has the extension of the next format.
    for (at, (_, bytes)) in files.iter().enumerate() {
        let extension = ["jpg", "webp", "gif", "bmp", "png"][at];
        write(folder.path(), &format!("{at}.{extension}"), bytes);
    }
    write(folder.path(), "9.png", b"<html>");
    let (_, samples) = only(folder.path());
    for (index, (name, bytes)) in files.iter().enumerate() {
        let raw = samples.raw(index).unwrap();
        assert_eq!(raw.image(&Limits::default()), decode(bytes, &Limits::default()), "{name}");
        assert_eq!(raw.encoded(), Some(&bytes[..]));
        assert_eq!(raw.digest(), <[u8; 32]>::from(Sha256::digest(bytes)));
    }
    let problem = samples.raw(5).unwrap().image(&Limits::default()).unwrap_err().to_string();
    assert_eq!(problem, "the file is an SVG image or a web page; save it as PNG, JPEG, WebP, GIF or BMP");
}

#[test]
fn a_set_is_named_after_its_folder() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "flux.1/a.png", b"x");
    for path in ["flux.1", "flux.1/", "flux.1/.", "flux.1/../flux.1"] {
        let (name, samples) = only(&folder.path().join(path));
        assert_eq!((name.as_str(), samples.len()), ("flux.1", 1), "{path}");
    }
    fs::create_dir(folder.path().join("flux.1/inner")).unwrap();
    assert_eq!(only(&folder.path().join("flux.1/inner/..")).0, "flux.1");
}

#[test]
fn folders_without_images_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let expected = "the folder holds no images; give one with .png, .jpg, .webp, .gif or .bmp files";
    assert_eq!(refusal(folder.path(), None), expected);
    write(folder.path(), "sub/labels.json", b"{}");
    assert_eq!(refusal(folder.path(), None), expected);

    let missing = folder.path().join("missing");
    assert!(refusal(&missing, None).starts_with(&format!("cannot read {}: ", missing.display())));
    write(folder.path(), "sub/a.png", b"x");
    assert_eq!(
        refusal(folder.path(), Some("flow")),
        "its images are one set without a name; leave out the name \"flow\""
    );
    let text = folder.path().join("sub/labels.json");
    assert_eq!(refusal(&text, None), "this does not hold images; give a folder, or a file of type .zip, .npy or .npz");
}

#[test]
fn files_that_cannot_be_read_have_a_problem_each() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["1.png", "2.png", "3.png"] {
        write(folder.path(), name, &image_files()[0].1);
    }
    write(folder.path(), "0.png", b"");
    let (_, samples) = only(folder.path());
    fs::remove_file(folder.path().join("1.png")).unwrap();
    fs::remove_file(folder.path().join("2.png")).unwrap();
    fs::create_dir(folder.path().join("2.png")).unwrap();

    let empty = samples.raw(0).unwrap().image(&Limits::default()).unwrap_err();
    assert_eq!(empty.to_string(), "the file is empty; write or copy it again");
    let vanished = samples.raw(1).unwrap_err().to_string();
    assert_eq!(vanished, "it does not exist; check the path");
    let replaced = samples.raw(2).unwrap_err().to_string();
    assert_eq!(replaced, "this is not a regular file; remove it, or replace it with an image");
    assert!(samples.raw(3).unwrap().image(&Limits::default()).is_ok());
    assert_eq!(samples.raw(4).unwrap_err().to_string(), "image 4 of 4 does not exist");
}

#[test]
fn unreasonably_large_files_are_not_read() {
    let folder = tempfile::tempdir().unwrap();
    // A sparse file, which takes no space on the disk.
    fs::File::create(folder.path().join("a.png")).unwrap().set_len((1 << 30) + 1).unwrap();
    let problem = only(folder.path()).1.raw(0).unwrap_err().to_string();
    assert_eq!(problem, "1073741825 bytes are more than the 1073741824 that an image may have; scale it down");
}

#[test]
fn folders_hold_images() {
    let folder = tempfile::tempdir().unwrap();
    assert!(holds_images(folder.path(), None));
    write(folder.path(), "a.txt", b"x");
    assert!(!holds_images(&folder.path().join("a.txt"), None));
    assert!(!holds_images(&folder.path().join("missing"), None));
}

#[cfg(unix)]
mod links {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    #[test]
    fn links_are_followed_and_loops_end() {
        let folder = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        write(other.path(), "elsewhere/x.png", b"x");
        write(folder.path(), "set/run2/a.png", b"x");
        let set = folder.path().join("set");
        symlink(&set, set.join("run2/up")).unwrap(); // to an ancestor
        symlink(set.join("run2"), set.join("latest")).unwrap(); // to a folder that is searched anyway
        symlink(other.path(), set.join("other")).unwrap(); // to another place
        symlink(other.path().join("elsewhere"), set.join("other2")).unwrap(); // to a place inside that one
        symlink(set.join("run2/a.png"), set.join("copy.png")).unwrap(); // to a file
        symlink("self.png", set.join("self.png")).unwrap(); // to itself
        symlink("nowhere", set.join("dangling.png")).unwrap();
        let (_, samples) = only(&set);
        let expected = ["copy.png", "dangling.png", "other/elsewhere/x.png", "run2/a.png", "self.png"];
        assert_eq!(ids(&samples), expected);
        assert_eq!(samples.raw(0).unwrap().encoded(), Some(&b"x"[..]));
        let dangling = samples.raw(1).unwrap_err().to_string();
        assert_eq!(dangling, "it is a link to nowhere, which does not exist; replace the link");
        let looping = samples.raw(4).unwrap_err().to_string();
        assert!(looping.starts_with("it is a link that cannot be followed ("), "{looping}");
    }

    /// Every folder has two links to the next one: without memory of folders, 2⁴⁰ would be searched.
    #[test]
    fn chains_of_links_are_searched_once() {
        let folder = tempfile::tempdir().unwrap();
        for level in 0..40 {
            let here = folder.path().join(format!("{level}"));
            fs::create_dir(&here).unwrap();
            for name in ["left", "right"] {
                symlink(folder.path().join(format!("{}", level + 1)), here.join(name)).unwrap();
            }
        }
        write(folder.path(), "40/a.png", b"x");
        assert_eq!(ids(&only(&folder.path().join("0")).1).len(), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn names_that_are_not_utf8_have_distinct_ids() {
        let folder = tempfile::tempdir().unwrap();
        let names: [&[u8]; 4] = [b"a\xff.png", b"a\xfe.png", b"a\\xFF.png", b"\xc3\x28/b.png"];
        for name in names {
            let path = folder.path().join(OsStr::from_bytes(name));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, name).unwrap();
        }
        let (_, samples) = only(folder.path());
        assert_eq!(ids(&samples), ["a\\xFF.png", "a\\xFE.png", "a\\xFF.png (2)", "\\xC3(/b.png"]);
        // Each id belongs to its own file.
        for (index, name) in [names[2], names[1], names[0], names[3]].iter().enumerate() {
            assert_eq!(samples.raw(index).unwrap().encoded(), Some(*name));
        }
    }

    #[test]
    fn pipes_are_not_opened() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("a.png");
        if !Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()) {
            return;
        }
        let samples = ImageSamples::open(folder.path(), None).unwrap().remove(0).1;
        let problem = samples.raw(0).unwrap_err().to_string();
        assert_eq!(problem, "this is not a regular file; remove it, or replace it with an image");
    }
}
