//! Reading a run, also while another process executes it. Nothing is locked, changed or repaired.

use std::path::{Path, PathBuf};

use super::chain::Head;
use super::connect;
use super::history::{self, History};
use super::payloads::Payloads;
use crate::problem::Result;

/// A run that is only read.
#[derive(Clone, Debug)]
pub struct Reader {
    folder: PathBuf,
}

impl Reader {
    /// Opens a run to read it.
    ///
    /// # Errors
    /// A folder without a run, or of a later version.
    pub fn open(folder: &Path) -> Result<Self> {
        connect::read(folder, |_| Ok(()))?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Everything that is committed at this moment.
    ///
    /// # Errors
    /// A damaged database.
    pub fn history(&self) -> Result<History> {
        connect::read(&self.folder, history::load)?.intact(&self.folder)
    }

    /// The number of transactions that are committed at this moment: whether there is something new.
    ///
    /// # Errors
    /// A damaged database.
    pub fn commits(&self) -> Result<u64> {
        connect::read(&self.folder, |connection| Ok(Head::load(connection)?.commits))
    }

    /// The files with the samples.
    pub fn payloads(&self) -> Payloads {
        Payloads::of(&self.folder)
    }

    /// The run's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}
