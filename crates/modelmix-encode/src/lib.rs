//! Features of images and texts, for modelmix.

pub mod image;
pub mod problem;

pub use image::Image;
pub use problem::Problem;
