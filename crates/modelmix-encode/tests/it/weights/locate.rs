//! Caches of modelmix, Hugging Face and torch.hub, and given paths.

use std::path::{Path, PathBuf};

use modelmix_encode::encoders::{Kind, NamedEncoder, Role, Source, WeightsFile};
use modelmix_encode::weights::{Environment, Found, Location, Missing, Origin, Platform, locate};

use super::{MODEL, ONE_FILE, encoder, environment};

const TOKENIZER: WeightsFile = WeightsFile { path: "tokenizer.json", role: Role::Tokenizer, sha256: None };

fn touch(path: &Path) -> PathBuf {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, "").unwrap();
    path.into()
}

fn found(location: Location) -> Found {
    match location {
        Location::Found(found) => found,
        Location::Missing(missing) => panic!("{missing:?}"),
    }
}

fn missing(location: Location) -> Missing {
    match location {
        Location::Missing(missing) => missing,
        Location::Found(found) => panic!("{found:?}"),
    }
}

#[test]
fn caches_are_where_their_tools_put_them() {
    let on = |platform, variables: &[(&str, &str)]| {
        let variables = variables.iter().map(|(name, value)| (name.to_string(), value.into()));
        Environment::new(platform, variables)
    };
    let home = ("HOME", "/home/me");
    let path = |path: &str| Some(PathBuf::from(path));
    let plain = on(Platform::Unix, &[home]);
    assert_eq!(plain.cache(), path("/home/me/.cache/modelmix"));
    assert_eq!(plain.hub_cache(), path("/home/me/.cache/huggingface/hub"));
    assert_eq!(plain.torch_checkpoints(), path("/home/me/.cache/torch/hub/checkpoints"));
    assert_eq!(plain.endpoint(), "https://huggingface.co");
    assert!(!plain.is_offline());
    let moved = on(Platform::Unix, &[home, ("XDG_CACHE_HOME", "/x"), ("HF_ENDPOINT", "https://mirror/ ")]);
    assert_eq!(moved.cache(), path("/x/modelmix"));
    assert_eq!(moved.hub_cache(), path("/x/huggingface/hub"));
    assert_eq!(moved.torch_checkpoints(), path("/x/torch/hub/checkpoints"));
    assert_eq!(moved.endpoint(), "https://mirror");
    let variables =
        [home, ("XDG_CACHE_HOME", "/x"), ("MODELMIX_CACHE", "~/own"), ("HF_HOME", "/hf"), ("TORCH_HOME", "/torch")];
    let named = on(Platform::Unix, &variables);
    assert_eq!(named.cache(), path("/home/me/own"));
    assert_eq!(named.hub_cache(), path("/hf/hub"));
    assert_eq!(named.torch_checkpoints(), path("/torch/hub/checkpoints"));
    let hub =
        on(Platform::Unix, &[home, ("HF_HOME", "/hf"), ("HF_HUB_CACHE", "/hub"), ("HUGGINGFACE_HUB_CACHE", "/old")]);
    assert_eq!(hub.hub_cache(), path("/hub"));
    let old = on(Platform::Unix, &[home, ("HF_HUB_CACHE", ""), ("HUGGINGFACE_HUB_CACHE", "/old")]);
    assert_eq!(old.hub_cache(), path("/old"));
    assert_eq!(on(Platform::MacOs, &[home]).cache(), path("/home/me/Library/Caches/modelmix"));
    assert_eq!(on(Platform::MacOs, &[home]).hub_cache(), path("/home/me/.cache/huggingface/hub"));
    assert_eq!(on(Platform::Windows, &[("LOCALAPPDATA", "/local")]).cache(), path("/local/modelmix"));
    assert_eq!(on(Platform::Windows, &[("USERPROFILE", "/me")]).cache(), path("/me/AppData/Local/modelmix"));
    let nothing = on(Platform::Unix, &[]);
    assert_eq!([nothing.cache(), nothing.hub_cache(), nothing.torch_checkpoints()], [None, None, None]);
    for value in ["1", "true", "ON", "yes"] {
        assert!(on(Platform::Unix, &[("HF_HUB_OFFLINE", value)]).is_offline());
    }
    assert!(!on(Platform::Unix, &[("HF_HUB_OFFLINE", "0")]).is_offline());
}

#[test]
fn the_token_is_that_of_the_hub() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path();
    let with = |variables: &[(&str, &str)]| {
        let mut all = vec![("HF_HOME", home)];
        all.extend(variables.iter().map(|(name, value)| (*name, Path::new(value))));
        environment(&all).token()
    };
    assert_eq!(with(&[]), None);
    std::fs::write(home.join("token"), " hf_file\n").unwrap();
    assert_eq!(with(&[]), Some("hf_file".into()));
    assert_eq!(with(&[("HF_TOKEN", "hf_variable")]), Some("hf_variable".into()));
    assert_eq!(with(&[("HF_TOKEN", "hf_variable"), ("HF_HUB_DISABLE_IMPLICIT_TOKEN", "1")]), None);
    std::fs::write(home.join("other"), "hf_other").unwrap();
    assert_eq!(with(&[("HF_TOKEN_PATH", home.join("other").to_str().unwrap())]), Some("hf_other".into()));
    std::fs::write(home.join("token"), "\n").unwrap();
    assert_eq!(with(&[]), None);
}

#[test]
fn the_own_cache_comes_first_then_hugging_face() {
    let folder = tempfile::tempdir().unwrap();
    let (own, hub) = (folder.path().join("own"), folder.path().join("hub"));
    let environment = environment(&[("MODELMIX_CACHE", &own), ("HF_HUB_CACHE", &hub)]);
    let encoder = encoder(ONE_FILE);
    let none = missing(locate(&encoder, None, &environment));
    assert!(none.looked.contains(&own.join("hub/owner/name/onnx/model.onnx")), "{none:?}");
    assert!(none.looked.contains(&hub.join("models--owner--name")));
    assert!(
        none.how_to_get.contains("`modelmix encoders pull tiny`, which downloads https://huggingface.co/owner/name")
    );

    let repository = hub.join("models--owner--name");
    let older = touch(&repository.join("snapshots/aaaa/onnx/model.onnx"));
    let only = found(locate(&encoder, None, &environment));
    assert_eq!((only.model, only.origin), (older, Origin::HuggingFace));
    // The blobs are files, and snapshots link to them.
    touch(&repository.join("blobs/1234"));
    let snapshot = repository.join("snapshots/bbbb");
    std::fs::create_dir_all(snapshot.join("onnx")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("../../../blobs/1234", snapshot.join("onnx/model.onnx")).unwrap();
    #[cfg(not(unix))]
    touch(&snapshot.join("onnx/model.onnx"));
    touch(&repository.join("snapshots/cccc/README.md"));
    for (reference, expected) in [("bbbb", "bbbb"), ("aaaa\n", "aaaa")] {
        std::fs::create_dir_all(repository.join("refs")).unwrap();
        std::fs::write(repository.join("refs/main"), reference).unwrap();
        let location = found(locate(&encoder, None, &environment));
        assert_eq!(location.model, repository.join("snapshots").join(expected).join("onnx/model.onnx"));
        assert_eq!(location.folder, repository.join("snapshots").join(expected));
    }
    // A reference to a snapshot without the file, or to anywhere else, is no obstacle.
    for reference in ["cccc", "../../../elsewhere", ""] {
        std::fs::write(repository.join("refs/main"), reference).unwrap();
        assert_eq!(found(locate(&encoder, None, &environment)).origin, Origin::HuggingFace, "{reference}");
    }
    // A link whose blob was removed is no file.
    std::fs::remove_file(repository.join("snapshots/aaaa/onnx/model.onnx")).unwrap();
    #[cfg(unix)]
    {
        std::fs::remove_file(repository.join("blobs/1234")).unwrap();
        missing(locate(&encoder, None, &environment));
    }

    let model = touch(&own.join("hub/owner/name/onnx/model.onnx"));
    let first = found(locate(&encoder, None, &environment));
    assert_eq!((first.model, first.origin), (model, Origin::Cache));
    assert_eq!(first.folder, own.join("hub/owner/name"));
}

#[test]
fn all_files_must_be_there() {
    const DATA: WeightsFile = WeightsFile { path: "onnx/model.onnx_data", role: Role::Data, sha256: None };
    const SETTINGS: WeightsFile = WeightsFile { path: "modules.json", role: Role::Settings, sha256: None };
    const SOURCES: &[Source] =
        &[Source::Hub { repository: "owner/name", revision: "main", files: &[MODEL, DATA, TOKENIZER, SETTINGS] }];
    let text = NamedEncoder { kind: Kind::Text { prefix: "", max_length: 8 }, ..encoder(SOURCES) };
    let folder = tempfile::tempdir().unwrap();
    let environment = environment(&[("MODELMIX_CACHE", folder.path())]);
    let root = folder.path().join("hub/owner/name");
    for path in ["onnx/model.onnx", "onnx/model.onnx_data", "tokenizer.json"] {
        let none = missing(locate(&text, None, &environment));
        assert!(none.looked.contains(&root.join(path)), "{none:?}");
        touch(&root.join(path));
    }
    let all = found(locate(&text, None, &environment));
    assert_eq!(all.tokenizer, Some(root.join("tokenizer.json")));
    assert_eq!((all.model, all.folder), (root.join("onnx/model.onnx"), root));
}

#[test]
fn torch_hub_and_exports() {
    let inception = NamedEncoder::named("inception-v3-fid").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (torch, own) = (folder.path().join("torch"), folder.path().join("own"));
    let environment = environment(&[("TORCH_HOME", &torch), ("MODELMIX_CACHE", &own)]);
    let none = missing(locate(inception, None, &environment));
    let checkpoints = torch.join("hub/checkpoints");
    for name in ["pt_inception-2015-12-05-6726825d.pth", "weights-inception-2015-12-05-6726825d.pth"] {
        assert!(none.looked.contains(&checkpoints.join(name)) && none.looked.contains(&own.join("files").join(name)));
    }
    let of_fidelity = touch(&checkpoints.join("weights-inception-2015-12-05-6726825d.pth"));
    let location = found(locate(inception, None, &environment));
    assert_eq!((location.model, location.origin), (of_fidelity, Origin::TorchHub));
    let own_file = touch(&own.join("files/inception-2015-12-05.pt"));
    assert_eq!(found(locate(inception, None, &environment)).model, own_file);
    // A user's own export comes before what was downloaded.
    let own_export = touch(&own.join("encoders/inception-v3-fid.onnx"));
    assert_eq!(found(locate(inception, None, &environment)).model, own_export);

    let roberta = NamedEncoder::named("roberta-base").unwrap();
    let none = missing(locate(roberta, None, &environment));
    assert!(none.how_to_get.contains("optimum-cli export onnx --model FacebookAI/roberta-base"), "{none:?}");
    assert!(none.how_to_get.contains("encoders/roberta-base.onnx"), "{none:?}");
    let export = touch(&own.join("encoders/roberta-base/model.onnx"));
    missing(locate(roberta, None, &environment));
    touch(&own.join("encoders/roberta-base/tokenizer.json"));
    assert_eq!(found(locate(roberta, None, &environment)).model, export);
}

#[test]
fn a_given_path_is_used_alone() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let environment = environment(&[("MODELMIX_CACHE", &folder.join("own"))]);
    touch(&folder.join("own/hub/owner/name/onnx/model.onnx"));
    let encoder = encoder(ONE_FILE);
    let given = folder.join("given");
    let none = missing(locate(&encoder, Some(&given), &environment));
    assert!(none.how_to_get.contains("given does not have the model") && none.looked == [given.clone()], "{none:?}");
    std::fs::create_dir(&given).unwrap();
    let none = missing(locate(&encoder, Some(&given), &environment));
    assert_eq!(none.looked, ["tiny.onnx", "onnx/model.onnx", "model.onnx"].map(|name| given.join(name)));
    for name in ["model.onnx", "onnx/model.onnx", "tiny.onnx"] {
        let file = touch(&given.join(name));
        for path in [&given, &file] {
            let location = found(locate(&encoder, Some(path), &environment));
            assert_eq!((location.model, location.origin), (file.clone(), Origin::Given));
        }
    }
    let any_name = touch(&folder.join("weights.bin"));
    assert_eq!(found(locate(&encoder, Some(&any_name), &environment)).model, any_name);
    let text = NamedEncoder { kind: Kind::Text { prefix: "", max_length: 8 }, ..encoder };
    let none = missing(locate(&text, Some(&any_name), &environment));
    assert!(none.looked.contains(&folder.join("tokenizer.json")), "{none:?}");
    assert!(none.how_to_get.contains("the model and its tokenizer.json"), "{none:?}");
}
