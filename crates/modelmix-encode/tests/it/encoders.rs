//! The table of encoders, pooling against plain loops, and the settings next to models.

use std::collections::BTreeSet;
use std::path::Path;

use modelmix_encode::encoders::output::normalise;
use modelmix_encode::encoders::{
    ENCODERS, EncoderFile, Kind, NamedEncoder, Output, Pooling, Role, SentenceSettings, Source,
};
use modelmix_encode::preprocess::{Tool, presets};

#[test]
fn the_table_is_consistent() {
    let names: BTreeSet<&str> = ENCODERS.iter().map(|encoder| encoder.name).collect();
    assert_eq!(names.len(), ENCODERS.len());
    for encoder in ENCODERS {
        let name = encoder.name;
        assert!(!encoder.presets.is_empty() && !encoder.inputs.is_empty() && !encoder.export.is_empty(), "{name}");
        assert!(encoder.export.matches('\'').count() % 2 == 0, "{name}: a shell could not read {}", encoder.export);
        let tools: BTreeSet<&str> = encoder.presets.iter().map(|preset| preset.tool).collect();
        assert_eq!(tools.len(), encoder.presets.len(), "{name}");
        assert!(encoder.presets.iter().all(|preset| preset.width >= 384));
        for source in encoder.sources {
            let roles = |role| source.files().iter().filter(|file| file.role == role).count();
            assert_eq!(roles(Role::Model), 1, "{name}");
            assert_eq!(roles(Role::Tokenizer), usize::from(matches!(encoder.kind, Kind::Text { .. })), "{name}");
            for file in source.files() {
                let plain = file.path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte));
                assert!(plain && !file.path.contains("..") && !file.path.starts_with('/'), "{name}: {}", file.path);
                if let Some(sha256) = file.sha256 {
                    assert!(
                        (8..=64).contains(&sha256.len())
                            && sha256.bytes().all(|byte| b"0123456789abcdef".contains(&byte))
                    );
                    // torch.hub checks the digits that file names end with.
                    let named = file.path.strip_suffix(".pth").and_then(|stem| stem.rsplit_once('-'));
                    assert!(named.is_none_or(|(_, digits)| sha256.starts_with(digits)), "{}", file.path);
                }
            }
            match source {
                Source::Hub { repository, .. } => assert_eq!(repository.matches('/').count(), 1),
                Source::Address { url, file } => {
                    assert!(url.starts_with("https://") && url.ends_with(file.path), "{url}");
                }
            }
        }
    }
}

/// What the models' cards say.
/// What the library can do is reachable by a name.
#[test]
fn every_preset_of_a_family_is_listed() {
    for (name, make) in [
        ("inception-v3-fid", presets::inception as fn(Tool) -> _),
        ("dinov2-vitl14", presets::dinov2),
        ("swav", presets::swav),
    ] {
        let encoder = NamedEncoder::named(name).unwrap();
        for tool in Tool::ALL.into_iter().filter(|&tool| make(tool).is_ok()) {
            assert!(encoder.preset(Some(tool.name())).is_ok(), "{name} {tool}");
        }
    }
    let clip: Vec<&NamedEncoder> = ENCODERS.iter().filter(|encoder| encoder.name.starts_with("clip")).collect();
    for tool in Tool::ALL.into_iter().filter(|&tool| presets::clip(tool, 224).is_ok()) {
        assert!(clip.iter().any(|encoder| encoder.preset(Some(tool.name())).is_ok()), "{tool}");
    }
}

#[test]
fn encoders_have_their_published_properties() {
    for (name, width, prefix, max_length, pooling, normalise) in [
        ("roberta-base", 768, "", 512, Pooling::Cls, false),
        ("all-minilm-l6-v2", 384, "", 256, Pooling::Mean, true),
        ("all-mpnet-base-v2", 768, "", 384, Pooling::Mean, true),
        ("e5-small-v2", 384, "query: ", 512, Pooling::Mean, true),
        ("multilingual-e5-large", 1024, "query: ", 512, Pooling::Mean, true),
        ("bge-base-en-v1.5", 768, "", 512, Pooling::Cls, true),
        ("bge-m3", 1024, "", 8192, Pooling::Cls, true),
        ("gte-large", 1024, "", 512, Pooling::Mean, true),
        ("gte-base-en-v1.5", 768, "", 8192, Pooling::Cls, true),
    ] {
        let encoder = NamedEncoder::named(name).unwrap();
        let preset = encoder.preset(None).unwrap();
        assert_eq!(encoder.kind, Kind::Text { prefix, max_length }, "{name}");
        assert_eq!(preset.width, width, "{name}");
        for tensor in ["last_hidden_state", "token_embeddings"] {
            let output = preset.output(&["sentence_embedding", tensor]).unwrap();
            assert_eq!(output, Output { tensor: Some(tensor.into()), pooling, normalise }, "{name}");
        }
    }
    for (name, size, tool, width, tensor, pooling, normalise) in [
        ("inception-v3-fid", 299, "clean-fid", 2048, None, Pooling::Tensor, false),
        ("dinov2-vits14", 224, "mixture-ucb", 384, Some("last_hidden_state"), Pooling::Cls, false),
        ("dinov2-vitb14", 224, "mixture-ucb", 768, Some("last_hidden_state"), Pooling::Cls, false),
        ("dinov2-vitl14", 224, "dgm-eval", 1024, Some("features"), Pooling::Tensor, false),
        ("dinov2-vitg14", 224, "huggingface", 1536, Some("features"), Pooling::Tensor, false),
        ("clip-vit-b32", 224, "clean-fid", 512, Some("image_embeds"), Pooling::Tensor, false),
        ("clip-vit-l14", 224, "torch-fidelity", 768, Some("image_embeds"), Pooling::Tensor, false),
        ("clip-vit-l14-336", 336, "cmmd", 768, Some("image_embeds"), Pooling::Tensor, true),
        ("clip-vit-l14-datacomp", 224, "dgm-eval", 1024, Some("features"), Pooling::Tensor, false),
        ("swav", 224, "dgm-eval", 2048, Some("features"), Pooling::Tensor, false),
    ] {
        let encoder = NamedEncoder::named(name).unwrap();
        let Kind::Image { size: found, .. } = encoder.kind else { panic!("{name} takes texts") };
        assert_eq!(found, size, "{name}");
        let preset = encoder.preset(Some(tool)).unwrap();
        assert_eq!(preset.width, width, "{name}");
        let output = preset.output(&[tensor.unwrap_or("anything")]).unwrap();
        assert_eq!(output, Output { tensor: tensor.map(str::to_string), pooling, normalise }, "{name}");
    }
}

#[test]
fn unknown_names_have_suggestions() {
    let message = |result: Result<&NamedEncoder, modelmix_encode::Problem>| result.unwrap_err().to_string();
    assert!(message(NamedEncoder::named("dinov2-vitl4")).contains("did you mean dinov2-vitl14?"));
    assert!(message(NamedEncoder::named("e5-base")).contains("no encoder named \"e5-base\""));
    assert!(message(NamedEncoder::named("dinov2")).contains("did you mean dinov2-vits14, dinov2-vitb14,"));
    assert!(message(NamedEncoder::named("inception-v3")).contains("did you mean inception-v3-fid?"));
    assert!(message(NamedEncoder::named("")).contains("no encoder named \"\"; "));
    let dino = NamedEncoder::named("dinov2-vitl14").unwrap();
    let problem = dino.preset(Some("clean-fid")).unwrap_err().to_string();
    assert!(
        problem.contains("dinov2-vitl14 has no preset \"clean-fid\"; use one of dgm-eval, mixture-ucb"),
        "{problem}"
    );
    let problem = dino.preset(None).unwrap().output(&["logits"]).unwrap_err().to_string();
    assert!(problem.contains("outputs are logits, but features are expected in features or last_hidden_state"));
    let problem = dino.preset(None).unwrap().output(&[]).unwrap_err().to_string();
    assert!(problem.contains("outputs are none, but"), "{problem}");
}

/// Numbers without a pattern.
fn numbers(count: usize) -> Vec<f32> {
    let mut state = 12345_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(next).collect()
}

#[test]
fn pooling_is_that_of_plain_loops() {
    let (samples, tokens, width) = (5, 7, 6);
    let shape = [samples, tokens, width];
    let mut values = numbers(samples * tokens * width);
    let lengths = [7, 1, 3, 6, 2];
    let mask: Vec<i64> = (0..samples * tokens).map(|at| i64::from(at % tokens < lengths[at / tokens])).collect();
    // What a model computes for padding must not matter.
    for (at, value) in values.iter_mut().enumerate() {
        if mask[at / width] == 0 {
            *value = f32::NAN;
        }
    }
    let output = |pooling, normalise| Output { tensor: None, pooling, normalise };
    let (cls, found) = output(Pooling::Cls, false).features(&shape, values.clone(), Some(&mask)).unwrap();
    assert_eq!(found, width);
    let (mean, _) = output(Pooling::Mean, false).features(&shape, values.clone(), Some(&mask)).unwrap();
    let (unit, _) = output(Pooling::Mean, true).features(&shape, values.clone(), Some(&mask)).unwrap();
    assert_eq!([cls.len(), mean.len(), unit.len()], [samples * width; 3]);
    for sample in 0..samples {
        let mut expected = vec![0.0_f64; width];
        for column in 0..width {
            let value = |token: usize| f64::from(values[(sample * tokens + token) * width + column]);
            assert_eq!(f64::from(cls[sample * width + column]), value(0));
            expected[column] = (0..lengths[sample]).map(value).sum::<f64>() / lengths[sample] as f64;
            assert!((f64::from(mean[sample * width + column]) - expected[column]).abs() < 1e-7);
        }
        let norm = expected.iter().map(|value| value * value).sum::<f64>().sqrt();
        for column in 0..width {
            assert!((f64::from(unit[sample * width + column]) - expected[column] / norm).abs() < 2e-7);
        }
    }
    let all = vec![1_i64; samples * tokens];
    let values = numbers(samples * tokens * width);
    let with = output(Pooling::Mean, false).features(&shape, values.clone(), Some(&all)).unwrap();
    assert_eq!(output(Pooling::Mean, false).features(&shape, values, None).unwrap(), with);
}

#[test]
fn vectors_keep_their_direction_and_zero_stays_zero() {
    let tensor = Output { normalise: true, ..Output::default() };
    let (features, width) = tensor.features(&[3, 2], vec![3.0, -4.0, 0.0, 0.0, 1e-20, 0.0], None).unwrap();
    assert_eq!(width, 2);
    assert_eq!(features[..4], [0.6, -0.8, 0.0, 0.0]);
    // Below 10⁻¹², the divisor of torch and sentence-transformers.
    assert!((f64::from(features[4]) - 1e-8).abs() < 1e-14);
    // Squares of large values do not overflow.
    let mut large = [3e30, 4e30];
    normalise(&mut large);
    assert!((large[0] - 0.6).abs() < 1e-6 && (large[1] - 0.8).abs() < 1e-6);
    let pooled = Output::default().features(&[2, 3, 1, 1], numbers(6), None).unwrap();
    assert_eq!(pooled, (numbers(6), 3));
}

#[test]
fn shapes_that_do_not_fit_are_named() {
    let problem = |pooling, shape: &[usize], mask: Option<&[i64]>| {
        let output = Output { pooling, ..Output::default() };
        let count = shape.iter().product();
        output.features(shape, vec![0.0; count], mask).unwrap_err().to_string()
    };
    assert!(problem(Pooling::Tensor, &[2, 3, 4], None).contains("use pooling cls or mean"));
    assert!(
        problem(Pooling::Cls, &[2, 3], None)
            .contains("[samples, tokens, width], but it has shape [2, 3]; use pooling tensor")
    );
    assert!(problem(Pooling::Mean, &[2, 3, 4, 5], None).contains("choose another output tensor"));
    assert!(problem(Pooling::Cls, &[2, 0, 4], None).contains("pooling cls needs"));
    assert!(problem(Pooling::Tensor, &[2, 0], None).contains("length 0"));
    assert!(problem(Pooling::Cls, &[2, 3, 0], None).contains("length 0"));
    assert!(problem(Pooling::Mean, &[2, 3, 4], Some(&[1; 5])).contains("5 tokens in all"));
    assert!(problem(Pooling::Mean, &[1, 2, 1], Some(&[0, 0])).contains("a text has no tokens"));
    let wrong = Output::default().features(&[2, 3], vec![0.0; 5], None).unwrap_err().to_string();
    assert!(wrong.contains("shape [2, 3] has 5 values"));
    assert!(Output::default().features(&[usize::MAX, 2], vec![], None).is_err());
}

fn write(folder: &Path, name: &str, content: &str) {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}

#[test]
fn settings_of_sentence_transformers() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    assert_eq!(SentenceSettings::read(folder).unwrap(), SentenceSettings::default());
    assert_eq!(SentenceSettings::default().max_length_or(256), 256);
    // A model of transformers states limits only, which are no reason to take longer texts than usual.
    write(folder, "config.json", r#"{"max_position_embeddings": 514}"#);
    let limits = SentenceSettings::read(folder).unwrap();
    assert_eq!([256, 514, 600].map(|usual| limits.max_length_or(usual)), [256, 514, 514]);
    // The files of all-MiniLM-L6-v2, shortened.
    write(
        folder,
        "modules.json",
        r#"[{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}]"#,
    );
    write(
        folder,
        "1_Pooling/config.json",
        r#"{"word_embedding_dimension": 384, "pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true}"#,
    );
    write(folder, "sentence_bert_config.json", r#"{"max_seq_length": 256, "do_lower_case": false}"#);
    write(folder, "tokenizer_config.json", r#"{"pad_token": "[PAD]", "model_max_length": 512}"#);
    let mut expected = SentenceSettings {
        pooling: Some(Pooling::Mean),
        normalise: Some(true),
        max_length: Some(256),
        is_sentence_model: true,
        lower_case: false,
        pad_token: Some("[PAD]".into()),
    };
    assert_eq!(SentenceSettings::read(folder).unwrap(), expected);
    assert_eq!([128, 512].map(|usual| expected.max_length_or(usual)), [256; 2]);
    // Newer names, no normalisation, no length but that of the model.
    write(
        folder,
        "modules.json",
        r#"[{"path": "", "type": "sentence_transformers.base.modules.transformer.Transformer"}, {"path": "1_Pooling", "type": "sentence_transformers.sentence_transformer.modules.pooling.Pooling"}]"#,
    );
    write(folder, "1_Pooling/config.json", r#"{"embedding_dimension": 768, "pooling_mode": "cls"}"#);
    write(folder, "sentence_bert_config.json", r#"{"max_seq_length": null, "do_lower_case": true}"#);
    write(
        folder,
        "tokenizer_config.json",
        r#"{"pad_token": {"content": "<pad>", "lstrip": false}, "model_max_length": 1000000000000000019884624838656}"#,
    );
    write(folder, "config.json", r#"{"max_position_embeddings": 514}"#);
    expected = SentenceSettings {
        pooling: Some(Pooling::Cls),
        normalise: Some(false),
        max_length: Some(514),
        is_sentence_model: true,
        lower_case: true,
        pad_token: Some("<pad>".into()),
    };
    assert_eq!(SentenceSettings::read(folder).unwrap(), expected);
    write(folder, "tokenizer_config.json", r#"{"model_max_length": 512}"#);
    let limited = SentenceSettings::read(folder).unwrap();
    assert_eq!((limited.max_length, limited.max_length_or(256)), (Some(512), 512));
    for (pooling, found) in [
        (r#"{"pooling_mode_max_tokens": true}"#, "[\"max\"]"),
        (r#"{"pooling_mode": ["cls", "mean"]}"#, "[\"cls\", \"mean\"]"),
        (r#"{"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}"#, "[\"cls\", \"mean\"]"),
        (r#"{}"#, "[]"),
    ] {
        write(folder, "1_Pooling/config.json", pooling);
        let message = SentenceSettings::read(folder).unwrap_err().to_string();
        assert!(message.contains(&format!("the pooling is {found}, but only cls or mean")), "{message}");
    }
    write(folder, "modules.json", r#"[{"path": "2_Dense", "type": "sentence_transformers.models.Dense"}]"#);
    assert!(SentenceSettings::read(folder).unwrap_err().to_string().contains("a module \"Dense\", but only"));
    write(folder, "modules.json", "[");
    assert!(SentenceSettings::read(folder).unwrap_err().to_string().contains("not what modules.json contains"));
}

#[test]
fn own_models_have_settings_next_to_them() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let model = folder.join("onnx/own.model.onnx");
    assert!(EncoderFile::open(&model).unwrap_err().to_string().contains("cannot read"));
    write(folder, "onnx/own.model.onnx", "");
    let plain = EncoderFile::open(&model).unwrap();
    assert_eq!(plain, EncoderFile { model: model.clone(), ..EncoderFile::default() });
    assert!(!plain.is_of_texts());
    write(folder, "tokenizer.json", "{}");
    let of_texts = EncoderFile::open(&model).unwrap();
    assert_eq!(of_texts.tokenizer, Some(folder.join("tokenizer.json")));
    assert!(of_texts.is_of_texts());
    write(
        folder,
        "onnx/own.model.encoder.toml",
        "tokenizer = \"other.json\"\nmax_length = 128\nprefix = \"query: \"\n[output]\ntensor = \"hidden\"\npooling = \"mean\"\nnormalise = true\n",
    );
    let expected = EncoderFile {
        model: model.clone(),
        output: Some(Output { tensor: Some("hidden".into()), pooling: Pooling::Mean, normalise: true }),
        tokenizer: Some(folder.join("onnx/other.json")),
        max_length: Some(128),
        prefix: "query: ".into(),
        ..EncoderFile::default()
    };
    assert_eq!(EncoderFile::open(&model).unwrap(), expected);
    write(folder, "onnx/own.model.encoder.json", r#"{"preset": "dgm-eval", "output": {"pooling": "cls"}}"#);
    assert!(EncoderFile::open(&model).unwrap_err().to_string().contains("remove one of them"));
    std::fs::remove_file(folder.join("onnx/own.model.encoder.toml")).unwrap();
    let read = EncoderFile::open(&model).unwrap();
    assert_eq!((read.preset.as_deref(), read.output.unwrap().pooling), (Some("dgm-eval"), Pooling::Cls));
    for (settings, problem) in [
        (r#"{"presets": "a"}"#, "unknown field `presets`"),
        (r#"{"output": {"pooling": "max"}}"#, "unknown variant `max`"),
        (r#"{"preset": "a", "preprocessing": {"channels": "grey", "steps": []}}"#, "give one of them"),
        (r#"{"max_length": 0}"#, "max_length is 0"),
        ("{", "the keys are preset, preprocessing, output"),
    ] {
        write(folder, "onnx/own.model.encoder.json", settings);
        let message = EncoderFile::open(&model).unwrap_err().to_string();
        assert!(message.contains(problem) && message.contains("own.model.encoder.json"), "{message}");
    }
    assert!(EncoderFile::open(folder).unwrap_err().to_string().contains("this is not a file"));
}
