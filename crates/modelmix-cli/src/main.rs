//! The command line of modelmix.

fn main() {}
