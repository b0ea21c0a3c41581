//! Compiled modules on disk, so that a process compiles only what no earlier one did. A file has a checksum; a damaged
//! one is compiled again.

use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

/// The start of every file; the number changes with the format.
const MAGIC: &[u8] = b"modelmix module 1\n";
const DIGEST_BYTES: usize = 32;

/// `$MODELMIX_CACHE`, or `modelmix` in the user's cache folder; `None` if there is no home folder.
pub(crate) fn user_folder() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let root = folder("MODELMIX_CACHE").or_else(|| {
        let cache = folder("XDG_CACHE_HOME").or_else(|| folder("LOCALAPPDATA"));
        Some(cache.or_else(|| Some(folder("HOME")?.join(".cache")))?.join("modelmix"))
    });
    Some(root?.join("cuda"))
}

/// The name of a module: the checksum of everything that its code depends on.
pub(crate) fn key(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        // Lengths keep parts apart.
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Reads a module; `None` if there is none or it is damaged.
pub(crate) fn read(folder: &Path, key: &str) -> Option<Vec<u8>> {
    let bytes = fs::read(path(folder, key)).ok()?;
    let rest = bytes.strip_prefix(MAGIC)?;
    let (digest, module) = rest.split_at_checked(DIGEST_BYTES)?;
    (Sha256::digest(module)[..] == *digest).then(|| module.to_vec())
}

/// Stores a module. It is written whole or not at all, under another name first, so that no process reads half of it.
/// A cache that cannot be written is no error: the module is compiled again next time.
pub(crate) fn write(folder: &Path, key: &str, module: &[u8]) -> std::io::Result<()> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    fs::create_dir_all(folder)?;
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // Processes of several machines or containers may have the same number and share the folder.
    let random = RandomState::new().hash_one(std::process::id());
    let temporary = folder.join(format!("{key}.{random:016x}-{count}.tmp"));
    let mut file = fs::File::create_new(&temporary)?;
    let written = (|| {
        file.write_all(MAGIC)?;
        file.write_all(&Sha256::digest(module))?;
        file.write_all(module)?;
        file.sync_all()?;
        fs::rename(&temporary, path(folder, key))
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

fn path(folder: &Path, key: &str) -> PathBuf {
    folder.join(format!("{key}.cubin"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_back() {
        let folder = tempfile::tempdir().unwrap();
        let key = key(&[b"source", b"sm_90a"]);
        assert_eq!(read(folder.path(), &key), None);
        write(folder.path(), &key, b"code").unwrap();
        assert_eq!(read(folder.path(), &key).unwrap(), b"code");
        write(folder.path(), &key, b"other").unwrap();
        assert_eq!(read(folder.path(), &key).unwrap(), b"other");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary files remain");
    }

    #[test]
    fn keys_depend_on_every_part() {
        let keys = [key(&[b"ab", b"c"]), key(&[b"a", b"bc"]), key(&[b"abc"]), key(&[b"ab", b"d"])];
        let distinct: std::collections::HashSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
        assert!(keys[0].len() == 64 && keys[0].bytes().all(|byte| byte.is_ascii_hexdigit()));
    }

    #[test]
    fn damaged_files_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a", b"some code").unwrap();
        let whole = fs::read(path(folder.path(), "a")).unwrap();
        for length in 0..whole.len() {
            fs::write(path(folder.path(), "a"), &whole[..length]).unwrap();
            assert_eq!(read(folder.path(), "a"), None, "cut after {length} bytes");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1;
            fs::write(path(folder.path(), "a"), &bytes).unwrap();
            assert_eq!(read(folder.path(), "a"), None, "byte {at} changed");
        }
    }

    #[test]
    fn folders_that_cannot_be_written_are_an_error_and_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, b"").unwrap();
        assert!(write(&file, "a", b"code").is_err());
    }
}
