//! The configurations of the documentation and of the examples are valid.

use std::path::{Path, PathBuf};

use modelmix_live::config::Config;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_configuration_of_the_page_is_valid() {
    let page = std::fs::read_to_string(root().join("docs/live.md")).expect("the page is there");
    let (_, rest) = page.split_once("```toml\n").expect("it has a configuration");
    let (text, _) = rest.split_once("```").expect("the configuration ends");
    let config = Config::parse(text, "docs/live.md").expect("it is valid");
    assert_eq!(config.arms.len(), 3);
    // A misspelt key is not.
    assert!(Config::parse(&text.replace("max_tokens", "max_token"), "docs/live.md").is_err());
}

#[test]
fn the_examples_are_valid() {
    for (name, arms) in [("fashion.toml", 5), ("stories/stories.toml", 3)] {
        let config = Config::read(&root().join("examples/live").join(name)).expect("it is valid");
        assert_eq!(config.arms.len(), arms, "{name}");
    }
}
