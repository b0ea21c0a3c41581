//! Provenance of a run: the command line, the date, and the input files with their checksums, which are computed while the
//! command works.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

use modelmix::Encoding;
use modelmix::document::{InputFile, InputRole, Provenance, UsedBandwidth};
use modelmix_cli::words::shell_word;
use sha2::{Digest, Sha256};

use crate::error::{Failure, Result};
use crate::files;

/// The environment variable that fixes the date, for reproducible builds (reproducible-builds.org).
const FIXED_DATE: &str = "SOURCE_DATE_EPOCH";
/// 9999-12-31T23:59:59Z: ISO 8601 has four digits for the year.
const LATEST_SECOND: u64 = 253_402_300_799;
/// Buffer size for reading files, in bytes.
const BLOCK: usize = 1 << 20;

/// Files that a command reads, without duplicates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    files: Vec<(PathBuf, InputFile)>,
    /// How the features of the arms were made.
    encoding: Option<Encoding>,
    /// The checksums of samples that were encoded, by the path of their folder.
    digests: BTreeMap<PathBuf, String>,
}

impl Sources {
    /// No files yet, for arms with this encoding and samples with these checksums.
    pub(crate) fn new(encoding: Option<Encoding>, digests: BTreeMap<PathBuf, String>) -> Self {
        Self { files: Vec::new(), encoding, digests }
    }

    /// Adds a file with its path as written and the argument that names it, unless the same path and role are present.
    pub(crate) fn add(&mut self, role: InputRole, path: &Path, argument: &str) {
        let same = |(known, input): &&mut (PathBuf, InputFile)| known == path && input.role == role;
        if let Some((_, input)) = self.files.iter_mut().find(same) {
            input.arguments.push(argument.into());
            return;
        }
        let mut input = InputFile::new(role, path.to_string_lossy());
        input.arguments = vec![argument.into()];
        self.files.push((path.into(), input));
    }

    /// Adds the files of another list.
    pub(crate) fn add_all(&mut self, others: &Sources) {
        for (path, input) in &others.files {
            input.arguments.iter().for_each(|argument| self.add(input.role, path, argument));
        }
    }

    /// The files with the sizes and checksums that were computed for the same paths.
    pub(crate) fn with_checksums(&self, computed: &[InputFile]) -> Vec<InputFile> {
        let complete = |(_, input): &(PathBuf, InputFile)| {
            let mut input = input.clone();
            if let Some(known) = computed.iter().find(|known| known.path == input.path) {
                (input.bytes, input.sha256) = (known.bytes, known.sha256.clone());
            }
            input
        };
        self.files.iter().map(complete).collect()
    }

    /// Checks that no output replaces one of the files.
    pub(crate) fn protected_from<'a>(self, outputs: impl IntoIterator<Item = &'a PathBuf>) -> Result<Self> {
        files::check_not_inputs(outputs, self.files.iter().map(|(path, _)| path))?;
        Ok(self)
    }

    /// Sizes without checksums, for data that takes long to read, if `is_wanted`.
    pub(crate) fn sizes(self, is_wanted: bool) -> Hashing {
        let size = |(path, mut input): (PathBuf, InputFile)| {
            input.bytes = std::fs::metadata(path).ok().filter(|file| file.is_file()).map(|file| file.len());
            input
        };
        let files = self.files.into_iter().map(size).collect();
        Hashing { files: is_wanted.then(|| std::thread::spawn(move || Ok(files))), encoding: self.encoding }
    }

    /// Starts to compute checksums if `is_wanted`.
    pub(crate) fn hash(self, is_wanted: bool) -> Hashing {
        let Sources { files, encoding, digests } = self;
        let hash = || {
            std::thread::spawn(move || {
                // The checksum of a folder is that of its samples; a file has its own.
                let known = |(path, mut input): (PathBuf, InputFile)| match digests.get(&path).filter(|_| path.is_dir())
                {
                    Some(digest) => {
                        input.sha256 = Some(digest.clone());
                        Ok(input)
                    }
                    None => hashed((path, input)),
                };
                files.into_iter().map(known).collect()
            })
        };
        Hashing { files: is_wanted.then(hash), encoding }
    }
}

/// Checksums that are being computed.
pub(crate) struct Hashing {
    files: Option<JoinHandle<Result<Vec<InputFile>>>>,
    encoding: Option<Encoding>,
}

impl Hashing {
    /// Waits for the checksums and returns the provenance; `None` if it was not requested.
    pub(crate) fn provenance(
        self,
        engine: String,
        seed: impl Into<Option<u64>>,
        bandwidths: Vec<UsedBandwidth>,
    ) -> Result<Option<Provenance>> {
        let Some(inputs) = self.files else { return Ok(None) };
        let inputs = inputs.join().map_err(|_| Failure::input("the checksums of the inputs could not be computed"))?;
        let mut provenance = Provenance::new();
        provenance.command = Some(command_line());
        provenance.engine = Some(engine);
        provenance.seed = seed.into();
        provenance.date = Some(date()?);
        provenance.inputs = inputs?;
        provenance.encoding = self.encoding;
        provenance.bandwidths = bandwidths;
        Ok(Some(provenance))
    }
}

/// Size and checksum of a file; unknown for a pipe or a device, which has been read already.
fn hashed((path, mut input): (PathBuf, InputFile)) -> Result<InputFile> {
    let failed = |error: std::io::Error| Failure::input(format!("cannot read {}: {error}", path.display()));
    if !std::fs::metadata(&path).map_err(failed)?.is_file() {
        return Ok(input);
    }
    let mut file = File::open(&path).map_err(failed)?;
    let (mut digest, mut block, mut bytes) = (Sha256::new(), vec![0; BLOCK], 0);
    loop {
        let read = file.read(&mut block).map_err(failed)?;
        if read == 0 {
            break;
        }
        digest.update(&block[..read]);
        bytes += read as u64;
    }
    input.bytes = Some(bytes);
    input.sha256 = Some(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect());
    Ok(input)
}

/// The command line, quoted for a shell, with the usual name of the program.
fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| shell_word(&word.to_string_lossy()));
    std::iter::once("modelmix".to_string()).chain(words).collect::<Vec<_>>().join(" ")
}

/// The current date, or the date of `SOURCE_DATE_EPOCH`.
pub(crate) fn date() -> Result<String> {
    let seconds = match std::env::var_os(FIXED_DATE) {
        Some(text) => fixed(&text)?,
        None => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
    };
    Ok(iso_8601(seconds))
}

fn fixed(text: &OsString) -> Result<u64> {
    let seconds = text.to_str().and_then(|text| text.parse().ok()).filter(|seconds| *seconds <= LATEST_SECOND);
    seconds.ok_or_else(|| {
        let found = text.to_string_lossy();
        Failure::input(format!("{FIXED_DATE} is \"{found}\", but it must be a number of seconds since 1970"))
    })
}

/// Seconds since 1970 as a date and time of the Gregorian calendar, in UTC.
fn iso_8601(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // The year starts in March, so that the leap day is its last; eras have 400 years (Howard Hinnant, "chrono-compatible
    // low-level date algorithms").
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::{InputFile, InputRole, Sources, hashed, iso_8601};

    /// Dates of `date --utc --date=@SECONDS`.
    #[test]
    fn seconds_are_dates() {
        let dates = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_210_096, "2024-02-29T12:34:56Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
            (253_402_300_799, "9999-12-31T23:59:59Z"),
        ];
        for (seconds, date) in dates {
            assert_eq!(iso_8601(seconds), date);
        }
    }

    /// The checksums of FIPS 180-2 (appendix B): "abc", and a million times "a".
    #[test]
    fn checksums_are_those_of_the_standard() {
        let folder = tempfile::tempdir().unwrap();
        let hash = |name: &str, contents: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, contents).unwrap();
            let input = hashed((path, InputFile::new(InputRole::Arms, name))).unwrap();
            (input.bytes.unwrap(), input.sha256.unwrap())
        };
        let short = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let long = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
        assert_eq!(hash("short", b"abc"), (3, short.into()));
        assert_eq!(hash("long", &vec![b'a'; 1_000_000]), (1_000_000, long.into()));
    }

    #[test]
    fn a_file_of_many_arms_is_one_input() {
        let mut sources = Sources::default();
        for (argument, path) in [("one=a.npz:x", "a.npz"), ("two=a.npz:y", "a.npz"), ("b.npy", "b.npy")] {
            sources.add(InputRole::Arms, path.as_ref(), argument);
        }
        sources.add(InputRole::Reference, "b.npy".as_ref(), "b.npy");
        let inputs: Vec<_> = sources.files.into_iter().map(|(_, input)| (input.role, input.arguments)).collect();
        assert_eq!(
            inputs,
            [
                (InputRole::Arms, vec!["one=a.npz:x".to_string(), "two=a.npz:y".into()]),
                (InputRole::Arms, vec!["b.npy".to_string()]),
                (InputRole::Reference, vec!["b.npy".to_string()]),
            ]
        );
    }
}
