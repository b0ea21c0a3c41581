//! What is wrong with one sample or one file.

/// What is wrong and how to fix it, in one sentence. It does not name the file: the caller knows the path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Problem(String);

impl Problem {
    /// A problem with this description.
    pub fn new(description: impl Into<String>) -> Self {
        Self(description.into())
    }
}
