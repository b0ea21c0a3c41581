//! The table of named encoders. Widths, prefixes, lengths and pooling are those of the models' own cards and
//! `modules.json`; presets are those of the tools that they are named after.

use super::{Family, Kind, NamedEncoder, Place, Pooling, Preset, Role, Source, WeightsFile};

/// The first digits of the SHA-256 of the FID Inception, which pytorch-fid and torch-fidelity publish as part of its name.
const INCEPTION_SHA256: &str = "6726825d";

const MODEL: WeightsFile = file("onnx/model.onnx", Role::Model);
const DATA: WeightsFile = file("onnx/model.onnx_data", Role::Data);
const TOKENIZER: WeightsFile = file("tokenizer.json", Role::Tokenizer);
const VISION_MODEL: WeightsFile = file("onnx/vision_model.onnx", Role::Model);

/// The files of a sentence encoder; settings are absent from some repositories.
const SENTENCE_FILES: &[WeightsFile] = &[MODEL, TOKENIZER, MODULES, POOLING, SENTENCE_CONFIG, TOKENIZER_CONFIG];
const LARGE_SENTENCE_FILES: &[WeightsFile] =
    &[MODEL, DATA, TOKENIZER, MODULES, POOLING, SENTENCE_CONFIG, TOKENIZER_CONFIG];
const MODULES: WeightsFile = file("modules.json", Role::Settings);
const POOLING: WeightsFile = file("1_Pooling/config.json", Role::Settings);
const SENTENCE_CONFIG: WeightsFile = file("sentence_bert_config.json", Role::Settings);
const TOKENIZER_CONFIG: WeightsFile = file("tokenizer_config.json", Role::Settings);

/// Exports with the commands below have an output of this name with one vector per sample.
const FEATURES: Place = Place { tensor: "features", pooling: Pooling::Tensor };
const CLASS_TOKEN: &[Place] = &[FEATURES, Place { tensor: "last_hidden_state", pooling: Pooling::Cls }];
const PROJECTED: &[Place] = &[FEATURES, Place { tensor: "image_embeds", pooling: Pooling::Tensor }];
/// optimum names the vectors of tokens `token_embeddings` if it exports a model of sentence-transformers.
const MEAN: &[Place] = &[
    Place { tensor: "last_hidden_state", pooling: Pooling::Mean },
    Place { tensor: "token_embeddings", pooling: Pooling::Mean },
];
const CLS: &[Place] = &[
    Place { tensor: "last_hidden_state", pooling: Pooling::Cls },
    Place { tensor: "token_embeddings", pooling: Pooling::Cls },
];

const IMAGE_INPUT: &[&str] = &["pixel_values"];
const TEXT_INPUTS: &[&str] = &["input_ids", "attention_mask", "token_type_ids"];

/// The call that writes a model of images, bound to `m`, with one vector per image as its output.
macro_rules! onnx_export {
    ($size:literal, $name:literal, $axes:literal) => {
        concat!(
            "torch.onnx.export(m, torch.zeros(1, 3, ",
            $size,
            ", ",
            $size,
            "), \"",
            $name,
            ".onnx\", input_names=[\"pixel_values\"], output_names=[\"features\"], dynamic_axes={\"pixel_values\": ",
            $axes,
            "}, dynamo=False)'"
        )
    };
}

/// DINOv2 from its authors: Hugging Face's copy interpolates the positions of patches slightly differently. They are
/// interpolated before the export, because rten has no cubic filter. Without `Sequential`, torch adds an input for masks.
macro_rules! dino_export {
    ($hub_name:literal, $name:literal) => {
        concat!(
            "python -c 'import torch; m = torch.hub.load(\"facebookresearch/dinov2\", \"",
            $hub_name,
            "\").eval(); m.pos_embed = torch.nn.Parameter(m.interpolate_pos_encoding(torch.zeros(1, 257, m.embed_dim), 224, 224)); m = torch.nn.Sequential(m); ",
            onnx_export!(224, $name, "[0]")
        )
    };
}

/// The projected vision tower of CLIP.
macro_rules! clip_export {
    ($repository:literal, $size:literal, $name:literal) => {
        concat!(
            "python -c 'import torch, transformers; c = transformers.CLIPVisionModelWithProjection.from_pretrained(\"",
            $repository,
            "\").eval(); m = torch.nn.Sequential(c, type(\"Embeds\", (torch.nn.Module,), {\"forward\": lambda self, x: x.image_embeds})()); ",
            onnx_export!($size, $name, "[0]")
        )
    };
}

/// Every named encoder: images first.
pub const ENCODERS: &[NamedEncoder] = &[
    NamedEncoder {
        name: "inception-v3-fid",
        kind: Kind::Image { family: Family::Inception, size: 299 },
        inputs: IMAGE_INPUT,
        presets: &[
            preset("torch-fidelity", 2048, &[]),
            preset("clean-fid", 2048, &[]),
            preset("pytorch-fid", 2048, &[]),
            preset("dgm-eval", 2048, &[]),
            preset("dgm-eval-clean", 2048, &[]),
        ],
        sources: &[
            Source::Address {
                url: "https://github.com/mseitzer/pytorch-fid/releases/download/fid_weights/pt_inception-2015-12-05-6726825d.pth",
                file: checked("pt_inception-2015-12-05-6726825d.pth", Role::Model, INCEPTION_SHA256),
            },
            Source::Address {
                url: "https://github.com/toshas/torch-fidelity/releases/download/v0.2.0/weights-inception-2015-12-05-6726825d.pth",
                file: checked("weights-inception-2015-12-05-6726825d.pth", Role::Model, INCEPTION_SHA256),
            },
            Source::Address {
                url: "https://nvlabs-fi-cdn.nvidia.com/stylegan2-ada-pytorch/pretrained/metrics/inception-2015-12-05.pt",
                file: file("inception-2015-12-05.pt", Role::Model),
            },
        ],
        export: "no export is needed: the .pt or .pth file of pytorch-fid, torch-fidelity or StyleGAN is read directly",
    },
    dino(
        "dinov2-vits14",
        &DINO_PRESETS[0],
        &[hub("onnx-community/dinov2-small", &[MODEL]), hub("Xenova/dinov2-small", &[MODEL])],
        dino_export!("dinov2_vits14", "dinov2-vits14"),
    ),
    dino(
        "dinov2-vitb14",
        &DINO_PRESETS[1],
        &[hub("onnx-community/dinov2-base", &[MODEL]), hub("Xenova/dinov2-base", &[MODEL])],
        dino_export!("dinov2_vitb14", "dinov2-vitb14"),
    ),
    dino(
        "dinov2-vitl14",
        &DINO_PRESETS[2],
        &[hub("onnx-community/dinov2-large", &[MODEL]), hub("Xenova/dinov2-large", &[MODEL])],
        dino_export!("dinov2_vitl14", "dinov2-vitl14"),
    ),
    dino("dinov2-vitg14", &DINO_PRESETS[3], &[], dino_export!("dinov2_vitg14", "dinov2-vitg14")),
    NamedEncoder {
        name: "clip-vit-b32",
        kind: Kind::Image { family: Family::Clip, size: 224 },
        inputs: IMAGE_INPUT,
        presets: &[
            preset("clean-fid", 512, PROJECTED),
            preset("huggingface", 512, PROJECTED),
            preset("torch-fidelity", 512, PROJECTED),
            preset("mixture-ucb", 512, PROJECTED),
            preset("open-clip", 512, PROJECTED),
            preset("huggingface-pil", 512, PROJECTED),
        ],
        sources: &[hub("Xenova/clip-vit-base-patch32", &[VISION_MODEL])],
        export: clip_export!("openai/clip-vit-base-patch32", 224, "clip-vit-b32"),
    },
    NamedEncoder {
        name: "clip-vit-l14",
        kind: Kind::Image { family: Family::Clip, size: 224 },
        inputs: IMAGE_INPUT,
        presets: &[
            preset("huggingface", 768, PROJECTED),
            preset("torch-fidelity", 768, PROJECTED),
            preset("open-clip", 768, PROJECTED),
            preset("huggingface-pil", 768, PROJECTED),
        ],
        sources: &[hub("Xenova/clip-vit-large-patch14", &[VISION_MODEL])],
        export: clip_export!("openai/clip-vit-large-patch14", 224, "clip-vit-l14"),
    },
    NamedEncoder {
        name: "clip-vit-l14-336",
        kind: Kind::Image { family: Family::Clip, size: 336 },
        inputs: IMAGE_INPUT,
        presets: &[
            Preset { tool: "cmmd", width: 768, outputs: PROJECTED, normalise: true },
            preset("huggingface", 768, PROJECTED),
            preset("open-clip", 768, PROJECTED),
            preset("huggingface-pil", 768, PROJECTED),
        ],
        sources: &[hub("Xenova/clip-vit-large-patch14-336", &[VISION_MODEL])],
        export: clip_export!("openai/clip-vit-large-patch14-336", 336, "clip-vit-l14-336"),
    },
    // dgm-eval uses other weights of this architecture, and the vector before the projection.
    NamedEncoder {
        name: "clip-vit-l14-datacomp",
        kind: Kind::Image { family: Family::Clip, size: 224 },
        inputs: IMAGE_INPUT,
        presets: &[preset("dgm-eval", 1024, &[FEATURES]), preset("dgm-eval-clean", 1024, &[FEATURES])],
        sources: &[],
        export: concat!(
            "python -c 'import open_clip, torch; m = open_clip.create_model(\"ViT-L-14\", \"datacomp_xl_s13b_b90k\").visual.eval(); m.proj = None; ",
            onnx_export!(224, "clip-vit-l14-datacomp", "[0]")
        ),
    },
    NamedEncoder {
        name: "swav",
        kind: Kind::Image { family: Family::Swav, size: 224 },
        inputs: IMAGE_INPUT,
        presets: &[preset("dgm-eval", 2048, &[FEATURES])],
        sources: &[],
        export: concat!(
            "python -c 'import torch; m = torch.hub.load(\"facebookresearch/swav\", \"resnet50\").eval(); m.fc = torch.nn.Identity(); ",
            onnx_export!(224, "swav", "[0, 2, 3]")
        ),
    },
    NamedEncoder {
        name: "roberta-base",
        kind: Kind::Text { prefix: "", max_length: 512 },
        inputs: TEXT_INPUTS,
        presets: &[preset("mixture-ucb", 768, CLS)],
        sources: &[],
        export: "optimum-cli export onnx --model FacebookAI/roberta-base --task feature-extraction roberta-base",
    },
    NamedEncoder {
        name: "all-minilm-l6-v2",
        kind: Kind::Text { prefix: "", max_length: 256 },
        inputs: TEXT_INPUTS,
        presets: &[sentence(384, MEAN)],
        sources: &[Source::Hub {
            repository: "sentence-transformers/all-MiniLM-L6-v2",
            revision: "c9745ed1d9f207416be6d2e6f8de32d1f16199bf",
            files: &[
                checked(
                    "onnx/model.onnx",
                    Role::Model,
                    "6fd5d72fe4589f189f8ebc006442dbb529bb7ce38f8082112682524616046452",
                ),
                checked(
                    "tokenizer.json",
                    Role::Tokenizer,
                    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
                ),
                MODULES,
                POOLING,
                SENTENCE_CONFIG,
                TOKENIZER_CONFIG,
            ],
        }],
        export: "optimum-cli export onnx --model sentence-transformers/all-MiniLM-L6-v2 --task feature-extraction all-minilm-l6-v2",
    },
    text(
        "all-mpnet-base-v2",
        "",
        384,
        &[sentence(768, MEAN)],
        &[hub("sentence-transformers/all-mpnet-base-v2", SENTENCE_FILES)],
    ),
    // e5: "query: " is the prefix for symmetric tasks, such as comparing sets of texts.
    text("e5-small-v2", QUERY, 512, &[sentence(384, MEAN)], &[hub("intfloat/e5-small-v2", SENTENCE_FILES)]),
    text("e5-base-v2", QUERY, 512, &[sentence(768, MEAN)], &[hub("intfloat/e5-base-v2", SENTENCE_FILES)]),
    text("e5-large-v2", QUERY, 512, &[sentence(1024, MEAN)], &[hub("intfloat/e5-large-v2", SENTENCE_FILES)]),
    text(
        "multilingual-e5-small",
        QUERY,
        512,
        &[sentence(384, MEAN)],
        &[hub("intfloat/multilingual-e5-small", SENTENCE_FILES)],
    ),
    text(
        "multilingual-e5-base",
        QUERY,
        512,
        &[sentence(768, MEAN)],
        &[hub("intfloat/multilingual-e5-base", SENTENCE_FILES)],
    ),
    text(
        "multilingual-e5-large",
        QUERY,
        512,
        &[sentence(1024, MEAN)],
        &[hub("intfloat/multilingual-e5-large", LARGE_SENTENCE_FILES)],
    ),
    // bge: passages have no prefix.
    text("bge-small-en-v1.5", "", 512, &[sentence(384, CLS)], &[hub("BAAI/bge-small-en-v1.5", SENTENCE_FILES)]),
    text("bge-base-en-v1.5", "", 512, &[sentence(768, CLS)], &[hub("BAAI/bge-base-en-v1.5", SENTENCE_FILES)]),
    text("bge-large-en-v1.5", "", 512, &[sentence(1024, CLS)], &[hub("BAAI/bge-large-en-v1.5", SENTENCE_FILES)]),
    text("bge-m3", "", 8192, &[sentence(1024, CLS)], &[hub("BAAI/bge-m3", LARGE_SENTENCE_FILES)]),
    text("gte-small", "", 512, &[sentence(384, MEAN)], &[hub("thenlper/gte-small", SENTENCE_FILES)]),
    text("gte-base", "", 512, &[sentence(768, MEAN)], &[hub("thenlper/gte-base", SENTENCE_FILES)]),
    text("gte-large", "", 512, &[sentence(1024, MEAN)], &[hub("thenlper/gte-large", SENTENCE_FILES)]),
    text("gte-base-en-v1.5", "", 8192, &[sentence(768, CLS)], &[hub("Alibaba-NLP/gte-base-en-v1.5", SENTENCE_FILES)]),
    text(
        "gte-large-en-v1.5",
        "",
        8192,
        &[sentence(1024, CLS)],
        &[hub("Alibaba-NLP/gte-large-en-v1.5", SENTENCE_FILES)],
    ),
];

const QUERY: &str = "query: ";

/// The presets of DINOv2, by width.
const DINO_PRESETS: [[Preset; 6]; 4] = [dino_presets(384), dino_presets(768), dino_presets(1024), dino_presets(1536)];

const fn dino_presets(width: usize) -> [Preset; 6] {
    [
        preset("dgm-eval", width, CLASS_TOKEN),
        preset("mixture-ucb", width, CLASS_TOKEN),
        preset("huggingface", width, CLASS_TOKEN),
        preset("torch-fidelity", width, CLASS_TOKEN),
        preset("dgm-eval-clean", width, CLASS_TOKEN),
        preset("huggingface-pil", width, CLASS_TOKEN),
    ]
}

const fn dino(
    name: &'static str,
    presets: &'static [Preset],
    sources: &'static [Source],
    export: &'static str,
) -> NamedEncoder {
    NamedEncoder {
        name,
        kind: Kind::Image { family: Family::Dinov2, size: 224 },
        inputs: IMAGE_INPUT,
        presets,
        sources,
        export,
    }
}

/// A sentence encoder whose repository has ONNX files.
const fn text(
    name: &'static str,
    prefix: &'static str,
    max_length: usize,
    presets: &'static [Preset],
    sources: &'static [Source],
) -> NamedEncoder {
    let export = "optimum-cli export onnx --model REPOSITORY --task feature-extraction FOLDER";
    NamedEncoder { name, kind: Kind::Text { prefix, max_length }, inputs: TEXT_INPUTS, presets, sources, export }
}

/// The preset of sentence-transformers for models that end with a `Normalize` module.
const fn sentence(width: usize, outputs: &'static [Place]) -> Preset {
    Preset { tool: "sentence-transformers", width, outputs, normalise: true }
}

const fn preset(tool: &'static str, width: usize, outputs: &'static [Place]) -> Preset {
    Preset { tool, width, outputs, normalise: false }
}

const fn hub(repository: &'static str, files: &'static [WeightsFile]) -> Source {
    Source::Hub { repository, revision: "main", files }
}

const fn file(path: &'static str, role: Role) -> WeightsFile {
    WeightsFile { path, role, sha256: None }
}

const fn checked(path: &'static str, role: Role, sha256: &'static str) -> WeightsFile {
    WeightsFile { path, role, sha256: Some(sha256) }
}
