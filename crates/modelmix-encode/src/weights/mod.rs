//! Where the weights of encoders are: a given path, the own cache, the caches of Hugging Face and torch.hub; and
//! downloads from a hub. Only this module uses the network.

pub mod digest;
mod download;
pub mod environment;
mod http;
pub mod locate;
pub mod pull;

pub use environment::{Environment, Platform};
pub use locate::{Found, Location, Missing, Origin, locate};
pub use pull::{Progress, PullOptions, Pulled, pull};
