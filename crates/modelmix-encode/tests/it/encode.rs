//! Whole runs: images in folders → features, with the small encoder and the recorded features of data/fashion.

use std::io::{self, Cursor, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use modelmix::compute::Stop;
use modelmix::load::{self, ArmSource, Pictures};
use modelmix::{Error, Features};
use modelmix_encode::cache::Cache;
use modelmix_encode::encode::{self, Encoded, Encoder, EncoderSettings, OnError, RunSettings};
use modelmix_encode::samples::Samples;
use modelmix_encode::store::{FeatureFile, FileType, NamedFeatures};
use modelmix_encode::weights::{Environment, Platform};
use tempfile::TempDir;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/fashion").join(name)
}

/// An environment without variables: nothing is looked for anywhere.
fn nowhere() -> Environment {
    Environment::new(Platform::Unix, [])
}

fn encoder() -> Encoder {
    let path = data("models/encoder.onnx").to_string_lossy().into_owned();
    encode::open(&EncoderSettings::new(path, nowhere())).unwrap()
}

/// The first images of an arm, as 28 × 28 grey PNG files 0.png, 1.png, …
fn write_images(folder: &Path, arm: &str, count: usize) {
    let source = ArmSource { name: None, path: data("images/specialists.npz"), key: Some(arm.into()) };
    let (_, pictures) = load::pictures(&[source], count).unwrap().remove(0);
    let Pictures::Raw { pixels, .. } = pictures else { panic!("images are arrays") };
    std::fs::create_dir_all(folder).unwrap();
    for (index, pixels) in pixels.chunks_exact(28 * 28).enumerate() {
        let file = std::fs::File::create(folder.join(format!("{index}.png"))).unwrap();
        let mut writer = png::Encoder::new(file, 28, 28);
        writer.set_color(png::ColorType::Grayscale);
        writer.write_header().unwrap().write_image_data(pixels).unwrap();
    }
}

fn folder_of_images(arm: &str, count: usize) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    write_images(folder.path(), arm, count);
    folder
}

fn open(path: &Path) -> Samples {
    let source = ArmSource { name: None, path: path.into(), key: None };
    Samples::open(&source).unwrap().remove(0).1
}

fn run(samples: &Samples, settings: &RunSettings, cache: Option<&Cache>) -> modelmix::Result<Encoded> {
    encode::encode(&encoder(), samples, settings, cache, &|_| {})
}

fn settings(on_error: OnError, threads: usize) -> RunSettings {
    let mut settings = RunSettings::default();
    (settings.on_error, settings.threads) = (on_error, Some(threads));
    settings
}

fn largest_difference(a: &Features, b: &Features) -> f32 {
    let rows = a.view().iter().zip(b.view().iter());
    rows.flat_map(|(a, b)| a.iter().zip(b).map(|(a, b)| (a - b).abs())).fold(0.0, f32::max)
}

/// The recorded features are those of onnxruntime with the original weights, rounded to 16 bits; the data's README states
/// that the smaller weights here change them by at most 0.04.
#[test]
fn images_have_their_recorded_features() {
    let folder = folder_of_images("shoes_gan", 60);
    let encoded = run(&open(folder.path()), &RunSettings::default(), None).unwrap();
    assert_eq!((encoded.features.len(), encoded.features.width()), (60, 64));
    let recorded = load::features(data("specialists.npz"), Some("shoes_gan")).unwrap();
    let difference = largest_difference(&encoded.features, &recorded);
    assert!(difference < 0.05, "{difference}");
    // A control: rows of another arm are far away.
    let other = load::features(data("specialists.npz"), Some("tops_gan")).unwrap();
    assert!(largest_difference(&encoded.features, &other) > 1.0);
    assert_eq!(encoded.rows, (0..60).collect::<Vec<_>>());
    let encoding = encoded.features.encoding().unwrap();
    assert_eq!((encoding.encoder.as_str(), encoding.fingerprint.len()), ("encoder.onnx", 64));
}

/// Files are in natural order, whatever the number of threads, and the same images in an archive have the same features.
#[test]
fn threads_and_containers_change_nothing() {
    let folder = folder_of_images("vae", 25);
    let one = run(&open(folder.path()), &settings(OnError::Refuse, 1), None).unwrap();
    let three = run(&open(folder.path()), &settings(OnError::Refuse, 3), None).unwrap();
    assert_eq!(one.features, three.features);
    assert_eq!(one.digest, three.digest);
    let samples = open(folder.path());
    assert_eq!((samples.id(2), samples.id(10)), ("2.png".into(), "10.png".into()));

    let archive = folder.path().join("all.zip");
    let mut writer = zip::ZipWriter::new(std::fs::File::create(&archive).unwrap());
    for index in 0..25 {
        let name = format!("{index}.png");
        writer.start_file(&name, zip::write::SimpleFileOptions::default()).unwrap();
        std::io::copy(&mut std::fs::File::open(folder.path().join(name)).unwrap(), &mut writer).unwrap();
    }
    writer.finish().unwrap();
    assert_eq!(run(&open(&archive), &RunSettings::default(), None).unwrap().features, one.features);

    let source = ArmSource { name: None, path: data("images/specialists.npz"), key: Some("vae".into()) };
    let arrays = Samples::open(&source).unwrap().remove(0).1;
    let from_arrays = run(&arrays, &RunSettings::default(), None).unwrap().features;
    assert_eq!(from_arrays.select(0..25).unwrap(), one.features);
}

#[test]
fn broken_images_are_refused_or_skipped() {
    let folder = folder_of_images("flow", 12);
    std::fs::write(folder.path().join("3.png"), b"").unwrap();
    let whole = std::fs::read(folder.path().join("7.png")).unwrap();
    std::fs::write(folder.path().join("7.png"), &whole[..whole.len() / 2]).unwrap();
    let refused = run(&open(folder.path()), &settings(OnError::Refuse, 2), None).unwrap_err().to_string();
    assert!(refused.contains("3.png") && refused.contains("skip"), "{refused}");
    let encoded = run(&open(folder.path()), &settings(OnError::Skip, 2), None).unwrap();
    let skipped: Vec<&str> = encoded.skipped.iter().map(|skipped| skipped.id.as_str()).collect();
    assert_eq!(skipped, ["3.png", "7.png"]);
    assert_eq!(encoded.rows, [0, 1, 2, 4, 5, 6, 8, 9, 10, 11]);
    let recorded = load::features(data("specialists.npz"), Some("flow")).unwrap().select(encoded.rows).unwrap();
    assert!(largest_difference(&encoded.features, &recorded) < 0.05);

    for index in 0..12 {
        std::fs::write(folder.path().join(format!("{index}.png")), b"no image").unwrap();
    }
    let none = run(&open(folder.path()), &settings(OnError::Skip, 2), None).unwrap_err().to_string();
    assert!(none.contains("no sample could be read") && none.contains("0.png"), "{none}");
}

/// A file that was there when the folder was listed.
#[test]
fn an_image_that_vanishes_is_named() {
    let folder = folder_of_images("flow", 4);
    let samples = open(folder.path());
    std::fs::remove_file(folder.path().join("2.png")).unwrap();
    let error = run(&samples, &RunSettings::default(), None).unwrap_err().to_string();
    assert!(error.contains("2.png"), "{error}");
}

#[test]
fn cached_rows_are_not_encoded_again() {
    let (folder, cache_folder) = (folder_of_images("tops_gan", 20), tempfile::tempdir().unwrap());
    let encoder = encoder();
    let cache = || Cache::open(cache_folder.path(), &encoder.cache_name(), encoder.width()).unwrap();
    let first = run(&open(folder.path()), &RunSettings::default(), Some(&cache())).unwrap();
    assert_eq!(first.cached, 0);
    // Another folder with the same images and five more: content counts, not names.
    let moved = tempfile::tempdir().unwrap();
    write_images(&moved.path().join("inner"), "tops_gan", 25);
    let second = run(&open(moved.path()), &RunSettings::default(), Some(&cache())).unwrap();
    assert_eq!(second.cached, 20);
    assert_eq!(second.features.select(0..20).unwrap(), first.features);
    // The cache is read: a row that is changed there, with its checksum, comes back.
    let path = cache_folder.path().join(encoder.cache_name());
    let (rows, index) = (path.join("rows"), path.join("index"));
    let mut bytes = std::fs::read(&rows).unwrap();
    bytes[..4].copy_from_slice(&123.0f32.to_le_bytes());
    std::fs::write(&rows, &bytes).unwrap();
    // Without its checksum it does not count, and the sample is encoded again.
    let damaged = run(&open(folder.path()), &RunSettings::default(), Some(&cache())).unwrap();
    assert_eq!((damaged.cached, damaged.features), (19, first.features.clone()));
    let mut records = std::fs::read(&index).unwrap();
    records[32..36].copy_from_slice(&crc32fast::hash(&bytes[..64 * 4]).to_le_bytes());
    // The row was added again at the end; only the first record counts here.
    records.truncate(36);
    std::fs::write(&index, &records).unwrap();
    let changed = run(&open(folder.path()), &RunSettings::default(), Some(&cache())).unwrap();
    assert_eq!(changed.cached, 1);
    assert!(changed.features.values().contains(&123.0));
}

/// A run that was stopped has its finished batches in the cache.
#[test]
fn stopped_work_goes_on_where_it_stopped() {
    let (folder, cache_folder) = (folder_of_images("vae", 40), tempfile::tempdir().unwrap());
    let encoder = encoder();
    let cache = || Cache::open(cache_folder.path(), "x", encoder.width()).unwrap();
    let mut settings = settings(OnError::Refuse, 1);
    settings.batch = Some(8);
    let (stop, batches) = (Stop::new(), AtomicUsize::new(0));
    settings.stop = stop.clone();
    let stopped = encode::encode(&encoder, &open(folder.path()), &settings, Some(&cache()), &|_| {
        if batches.fetch_add(1, Ordering::Relaxed) == 1 {
            stop.set();
        }
    });
    assert!(matches!(stopped, Err(Error::Stopped)), "{stopped:?}");
    let rest = run(&open(folder.path()), &RunSettings::default(), Some(&cache())).unwrap();
    assert_eq!(rest.cached, 16);
}

/// A full disk, or a device in its place: the features are whole, and the problem is stated.
#[cfg(target_os = "linux")]
#[test]
fn a_cache_that_cannot_be_written_stops_nothing() {
    let (folder, cache_folder) = (folder_of_images("vae", 6), tempfile::tempdir().unwrap());
    let encoder = encoder();
    let path = cache_folder.path().join("full");
    std::fs::create_dir(&path).unwrap();
    std::os::unix::fs::symlink("/dev/full", path.join("rows")).unwrap();
    let cache = Cache::open(cache_folder.path(), "full", encoder.width()).unwrap();
    let encoded = run(&open(folder.path()), &RunSettings::default(), Some(&cache)).unwrap();
    assert_eq!(encoded.features, run(&open(folder.path()), &RunSettings::default(), None).unwrap().features);
    let problem = encoded.cache_problem.unwrap().to_string();
    assert!(problem.contains("the cache of features cannot be used") && problem.contains("turn it off"), "{problem}");
}

/// Pillow 12 runs passes in another order than Pillow 13; the version is part of the stated preset and of the fingerprint.
#[test]
fn the_version_of_pillow_can_be_chosen() {
    let model = crate::models::fixture("any_size.onnx");
    let open = |preset: &str| {
        let mut settings = EncoderSettings::new(model.to_string_lossy(), nowhere());
        settings.preset = Some(preset.into());
        encode::open(&settings)
    };
    let (usual, twelve) = (open("dinov2-vits14/dgm-eval").unwrap(), open("dinov2-vits14/dgm-eval+pillow-12").unwrap());
    assert_ne!(usual.encoding().fingerprint, twelve.encoding().fingerprint);
    assert_eq!(usual.encoding().fingerprint, open("dinov2-vits14/dgm-eval+pillow-13").unwrap().encoding().fingerprint);
    assert_eq!(twelve.encoding().preset.as_deref(), Some("dinov2-vits14/dgm-eval+pillow-12"));
    for (preset, words) in [
        ("dinov2-vits14/dgm-eval+pillow-11", "has no preset \"dgm-eval+pillow-11\""),
        ("dinov2-vits14/torch-fidelity+pillow-12", "does not resize images for dinov2-vits14 with Pillow"),
        ("nosuch", "as in clip-vit-b32/clean-fid; there is no encoder named \"nosuch\""),
    ] {
        let error = open(preset).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// Several writers, and a writer that was killed in the middle of a record.
#[test]
fn writers_share_a_cache() {
    let folder = tempfile::tempdir().unwrap();
    let digest = |writer: u8, at: u8| {
        let mut digest = [0; 32];
        (digest[0], digest[1]) = (writer, at);
        digest
    };
    std::thread::scope(|scope| {
        for writer in 0..4u8 {
            let path = folder.path();
            scope.spawn(move || {
                let cache = Cache::open(path, "shared", 3).unwrap();
                for at in 0..50u8 {
                    let value = f32::from(writer) * 100.0 + f32::from(at);
                    cache.add(&[digest(writer, at)], &[value, value + 0.25, value + 0.5]).unwrap();
                }
            });
        }
    });
    for name in ["index", "rows"] {
        let path = folder.path().join("shared").join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes.extend(b"half");
        std::fs::write(path, bytes).unwrap();
    }
    let cache = Cache::open(folder.path(), "shared", 3).unwrap();
    assert_eq!(cache.len(), 200);
    cache.add(&[digest(9, 9)], &[1.0, 2.0, 3.0]).unwrap();
    let cache = Cache::open(folder.path(), "shared", 3).unwrap();
    let mut row = [0.0; 3];
    for writer in 0..4u8 {
        for at in 0..50u8 {
            assert!(cache.read(&digest(writer, at), &mut row));
            let value = f32::from(writer) * 100.0 + f32::from(at);
            assert_eq!(row, [value, value + 0.25, value + 0.5]);
        }
    }
    assert!(cache.read(&digest(9, 9), &mut row) && row == [1.0, 2.0, 3.0]);
    assert!(!cache.read(&digest(5, 5), &mut row));
}

/// A disk that is full after a few bytes, and counts its errors.
struct Disk {
    written: Cursor<Vec<u8>>,
    room: u64,
    errors: usize,
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.written.position() + bytes.len() as u64 > self.room {
            self.errors += 1;
            return Err(ErrorKind::StorageFull.into());
        }
        self.written.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Disk {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.written.seek(position)
    }
}

/// Files come back as they were, and a full disk has one error, of the disk.
#[test]
fn files_of_features_come_back() {
    let folder = folder_of_images("flow", 3);
    let encoded = run(&open(folder.path()), &RunSettings::default(), None).unwrap();
    let ids: Vec<String> = (0..3).map(|index| format!("{index}.png")).collect();
    let encoding = encoded.features.encoding().unwrap().clone();
    let set =
        |name: &str, features: Features, ids: &[String]| NamedFeatures { name: name.into(), features, ids: ids.into() };
    let sets = vec![
        set("flow", encoded.features.clone(), &ids),
        set("a b", encoded.features.select([2, 1]).unwrap(), &ids[1..]),
    ];
    let file = FeatureFile { encoding: encoding.clone(), sets };
    for name in ["out.npz", "out.safetensors"] {
        let path = folder.path().join(name);
        let file_type = FileType::of(&path).unwrap();
        file.write(file_type, std::fs::File::create(&path).unwrap()).unwrap();
        let read = load::features(&path, Some("flow")).unwrap();
        assert_eq!((&read, read.encoding()), (&encoded.features, Some(&encoding)));
        assert_eq!(load::features(&path, Some("a b")).unwrap().row(0), encoded.features.row(2));
        let found = load::ids(&path).unwrap().unwrap();
        assert_eq!((&found["flow"], found["a b"].len()), (&ids, 2));
        assert_eq!(load::arrays(&path).unwrap().len(), 2);
    }
    let length = std::fs::metadata(folder.path().join("out.npz")).unwrap().len();
    for room in [0, 100, length / 2, length - 1] {
        let mut disk = Disk { written: Cursor::new(Vec::new()), room, errors: 0 };
        let error = file.write(FileType::Npz, &mut disk).unwrap_err();
        assert_eq!((error.kind(), disk.errors), (ErrorKind::StorageFull, 1), "{room}");
    }
    let error = FileType::of(Path::new("out.csv")).unwrap_err().to_string();
    assert!(error.contains(".npz or .safetensors"), "{error}");
}

/// The tensors of SwAV's preprocessing have the aspect ratio of the image; the network here returns the mean of each channel.
#[test]
fn networks_may_take_images_of_any_size() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("any_size.onnx");
    std::fs::copy(crate::models::fixture("any_size.onnx"), &model).unwrap();
    std::fs::write(folder.path().join("any_size.encoder.toml"), "preset = \"swav/dgm-eval\"").unwrap();
    let images = folder.path().join("images");
    std::fs::create_dir(&images).unwrap();
    let sizes = [(224, 224), (300, 200), (20, 90), (300, 200), (300, 200), (7, 1)];
    let colour = |index: usize| [40 * index as u8, 255 - 30 * index as u8, 128];
    for (index, &(width, height)) in sizes.iter().enumerate() {
        let file = std::fs::File::create(images.join(format!("{index}.png"))).unwrap();
        let mut writer = png::Encoder::new(file, width, height);
        writer.set_color(png::ColorType::Rgb);
        let pixels = colour(index).repeat((width * height) as usize);
        writer.write_header().unwrap().write_image_data(&pixels).unwrap();
    }
    for &runtime in crate::models::runtimes() {
        let mut settings = EncoderSettings::new(model.to_string_lossy(), nowhere());
        settings.runtime = runtime;
        let encoder = encode::open(&settings).unwrap();
        let encoded = encode::encode(&encoder, &open(&images), &RunSettings::default(), None, &|_| {}).unwrap();
        for index in 0..sizes.len() {
            let constants = [(0.485, 0.229), (0.456, 0.224), (0.406, 0.225)];
            for (channel, (mean, std)) in constants.into_iter().enumerate() {
                let expected = (f64::from(colour(index)[channel]) / 255.0 - mean) / std;
                let found = f64::from(encoded.features.row(index)[channel]);
                // One level of a pixel is 0.017; sums of some 200,000 values in single precision are 10⁻⁴ off.
                assert!((found - expected).abs() < 1e-3, "image {index}: {found}, not {expected}");
            }
        }
    }
}

/// Fingerprints depend on weights and preprocessing, not on where the file is.
#[test]
fn fingerprints_state_weights_and_preprocessing() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("other.onnx");
    std::fs::copy(data("models/encoder.onnx"), &model).unwrap();
    let settings_file = folder.path().join("other.encoder.toml");
    let text = std::fs::read_to_string(data("models/encoder.encoder.toml")).unwrap();
    let fingerprint = || {
        let settings = EncoderSettings::new(model.to_string_lossy(), nowhere());
        encode::open(&settings).unwrap().encoding().fingerprint.clone()
    };
    std::fs::write(&settings_file, &text).unwrap();
    let original = encoder().encoding().fingerprint.clone();
    assert_eq!(fingerprint(), original);
    std::fs::write(&settings_file, text.replace("255.0", "256.0")).unwrap();
    assert_ne!(fingerprint(), original);
}

#[test]
fn encoders_that_cannot_be_opened() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |name: &str, words: &[&str]| {
        let error = encode::open(&EncoderSettings::new(name, nowhere())).unwrap_err().to_string();
        assert!(words.iter().all(|word| error.contains(word)) && !error.contains('\n'), "{error}");
    };
    refused("dinov2-vitl", &["dinov2-vitl14"]);
    refused("dinov2-vitl14", &["dinov2-vitl14", "not on this machine", "pull"]);
    refused("missing.onnx", &["missing.onnx"]);
    refused("w.pt", &["w.pt", "--encoder inception-v3-fid --encoder-weights w.pt"]);
    let texts = folder.path().join("texts.onnx");
    std::fs::copy(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/minilm/model.onnx"), &texts).unwrap();
    refused(&texts.to_string_lossy(), &["texts.onnx", "no tokenizer.json is next to it"]);
    let mut two = EncoderSettings::new("a.onnx", nowhere());
    two.weights = Some("b.png".into());
    let error = encode::open(&two).unwrap_err().to_string();
    assert!(error.contains("a.onnx") && error.contains("b.png is given as its weights; give one"), "{error}");
    let model = folder.path().join("bare.onnx");
    std::fs::copy(data("models/encoder.onnx"), &model).unwrap();
    refused(&model.to_string_lossy(), &["bare.onnx", "preprocess", "docs/encoders.md"]);
    std::fs::write(folder.path().join("bare.encoder.toml"), "preset = \"clip-vit-b32/clean-fid\"").unwrap();
    refused(&model.to_string_lossy(), &["bare.onnx", "[n, 1, 28, 28]", "[1, 3, 224, 224]"]);
    std::fs::write(folder.path().join("bare.encoder.toml"), "output = { tensor = \"pool\" }").unwrap();
    refused(&model.to_string_lossy(), &["bare.onnx", "pool", "features"]);
    std::fs::write(&model, b"not a model").unwrap();
    std::fs::remove_file(folder.path().join("bare.encoder.toml")).unwrap();
    refused(&model.to_string_lossy(), &["bare.onnx"]);
}

/// Through a link, rows would be appended to a file that is no cache.
#[cfg(unix)]
#[test]
fn links_are_no_cache() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other");
    std::fs::write(&other, "something else").unwrap();
    std::fs::create_dir(folder.path().join("x")).unwrap();
    std::os::unix::fs::symlink(&other, folder.path().join("x/index")).unwrap();
    let problem = Cache::open(folder.path(), "x", 3).unwrap_err().to_string();
    assert!(problem.contains("it is a link or no regular file"), "{problem}");
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "something else");
}

/// A cache that others have filled.
#[cfg(unix)]
#[test]
fn a_cache_that_can_only_be_read_is_used() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    Cache::open(folder.path(), "x", 2).unwrap().add(&[[1; 32]], &[0.5, 0.25]).unwrap();
    for file in ["index", "rows"] {
        let permissions = std::fs::Permissions::from_mode(0o444);
        std::fs::set_permissions(folder.path().join("x").join(file), permissions).unwrap();
    }
    let cache = Cache::open(folder.path(), "x", 2).unwrap();
    let mut row = [0.0; 2];
    assert!(cache.read(&[1; 32], &mut row) && row == [0.5, 0.25]);
    // The superuser may write nevertheless.
    let is_writable = std::fs::OpenOptions::new().append(true).open(folder.path().join("x/index")).is_ok();
    assert_eq!(cache.add(&[[2; 32]], &[1.0, 2.0]).is_ok(), is_writable);
}

/// One sample at a time, from memory.
#[test]
fn single_samples_have_the_features_of_whole_runs() {
    let folder = folder_of_images("flow", 6);
    let whole = run(&open(folder.path()), &settings(OnError::Refuse, 1), None).unwrap();
    let encoder = encoder();
    for index in 0..6 {
        let bytes = std::fs::read(folder.path().join(format!("{index}.png"))).unwrap();
        assert_eq!(encoder.encode_file(&bytes).unwrap(), whole.features.row(index));
        let image = modelmix_encode::decode::decode(&bytes, &Default::default()).unwrap();
        assert_eq!(encoder.encode_image(&image).unwrap(), whole.features.row(index));
    }
    assert!(encoder.encode_file(b"no image").unwrap_err().to_string().contains("PNG"));
    assert!(encoder.encode_text("a text").unwrap_err().to_string().contains("choose an encoder"));
}
