//! Arms over HTTP: servers that speak OpenAI's API for chats and images, servers of any other kind behind a template, and an
//! encoder of texts.
//!
//! Every kind has settings, which are what the user wrote and hold no secrets, and `open`, which checks all that can be checked
//! before a request. One client sends the requests of all kinds and says what became of them.

mod address;
pub mod chat;
mod client;
mod content;
mod date;
pub mod embeddings;
pub mod images;
mod keys;
mod path;
mod prices;
mod settings;
pub mod template;

pub use chat::{ChatArm, ChatSettings};
pub use embeddings::{Embedded, Embeddings, EmbeddingsSettings};
pub use images::{ImagesArm, ImagesSettings};
pub use keys::{Headers, KeyReference};
pub use settings::Timeouts;
pub use template::{AnswerKind, HttpArm, HttpSettings, Method};

/// The value of a variable of the environment; `None` if it is not set.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;
