//! Tests of live runs: real processes, real servers on loopback, real databases.

#![allow(clippy::unwrap_used, missing_docs)]

mod command;
mod command_process;
mod command_python;
mod documented;
mod http;
mod http_embeddings;
mod http_images;
mod http_keys;
mod http_template;
mod local;
mod local_scores;
mod runs;
mod server;
mod store;
