//! What the command line of modelmix is made of: everything but the commands themselves.

pub mod report;
pub mod tables;
pub mod words;
