//! The command line as its users meet it: what it prints, what it refuses and how, what it leaves on the disk.
#![allow(clippy::unwrap_used)]

mod comparing;
mod configuration;
mod curated;
mod documents;
mod everything;
mod first_hour;
mod nothing_lost;
mod pages;
mod provenance;
mod refusals;
mod signals;
mod snapshots;
mod tables;
mod world;
