//! Parts of the command line of modelmix other than the commands.

pub mod report;
pub mod tables;
pub mod words;
