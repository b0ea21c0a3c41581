//! Tests of the command line: its output, its error messages, and the files that it leaves.
#![allow(clippy::unwrap_used)]

mod comparing;
mod configuration;
mod curated;
mod documents;
mod encoding;
mod everything;
mod first_hour;
mod live;
mod nothing_lost;
mod pages;
mod parts;
mod provenance;
mod refusals;
mod signals;
mod snapshots;
mod tables;
mod world;
