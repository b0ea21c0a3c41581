//! Bad inputs: each is rejected with one sentence and exit code 2, and leaves no files.

use super::world::{Run, World};

/// A command line, and parts of its error message.
type Case = (&'static str, &'static [&'static str]);

const FILES: &[Case] = &[
    (
        "solve made/a.npy made/b.npy -r made/reference.npy -o 0.5*precision",
        &["the objective is 0.5*precision", "-0.5*precision", "a higher value of this one is better"],
    ),
    ("solve made/missing.npy made/b.npy", &["cannot read made/missing.npy", "No such file"]),
    ("solve made/folder made/b.npy", &["made/folder", "folder"]),
    ("solve made/notes.txt made/b.npy", &["made/notes.txt", "texts", "--encoder"]),
    ("solve made/empty.npy made/b.npy", &["made/empty.npy"]),
    ("solve made/truncated.npy made/b.npy", &["made/truncated.npy", "bytes"]),
    ("solve made/cut.npy made/b.npy", &["made/cut.npy"]),
    ("solve made/forged.npy made/b.npy", &["made/forged.npy", "4000000000"]),
    ("solve made/nan.npy made/b.npy", &["made/nan.npy", "row 13, column 4 is NaN", "remove the row", "counted from 0"]),
    ("solve made/infinite.npy made/b.npy", &["made/infinite.npy", "row 13, column 4 is inf"]),
    ("solve load/nan.npz", &["load/nan.npz", "NaN"]),
    ("solve load/object.npy", &["load/object.npy"]),
    ("solve load/one_dimension.npy", &["load/one_dimension.npy", "dimension"]),
    ("solve load/no_rows.npy", &["load/no_rows.npy"]),
    ("solve load/bool.npy", &["load/bool.npy", "booleans"]),
    ("solve made/model.pt made/b.npy", &["made/model.pt", "PyTorch", "numpy.save", "torch.load", ".safetensors"]),
    ("solve load/empty.npz", &["load/empty.npz", "no array"]),
    ("solve load/bzip2.npz", &["load/bzip2.npz"]),
    ("solve made/lies.npz", &["made/lies.npz"]),
    ("solve load/empty.safetensors", &["load/empty.safetensors"]),
    ("solve made/words.csv made/b.npy", &["made/words.csv", "four"]),
    ("solve made/ragged.csv", &["made/ragged.csv", "line 2"]),
    ("solve made/empty.csv", &["made/empty.csv"]),
    ("solve made/lies.parquet", &["made/lies.parquet"]),
    ("solve load/ragged.parquet", &["load/ragged.parquet"]),
    ("solve load/null_row.parquet", &["load/null_row.parquet", "row"]),
    ("solve fashion/specialists.npz:tops_gam", &["\"tops_gam\"", "did you mean \"tops_gan\"?"]),
    ("solve made/a.npy:key made/b.npy", &["made/a.npy", "key"]),
    ("solve =made/a.npy", &["=made/a.npy"]),
    ("solve made/a.npy made/a.npy", &["arm a", "two arms have this name"]),
    ("solve x=made/a.npy x=made/b.npy", &["arm x", "two arms have this name"]),
    ("solve made/a.npy made/wide.npy", &["arm wide has 7 columns, but arm a has 6", "same encoder"]),
    ("solve made/a.npy made/b.npy -r made/wide.npy", &["reference made/wide.npy has 7 columns", "6"]),
    ("solve made/a.npy made/b.npy -r made/missing.npy", &["cannot read made/missing.npy"]),
    ("solve made/a.npy made/b.npy -r load/several.safetensors", &["load/several.safetensors", "arrays"]),
    ("solve made/one.npy made/b.npy -o kid -r made/reference.npy", &["one", "at least 2"]),
];

const ENGINES: &[Case] = &[
    ("solve made/a.npy made/b.npy --engine gpu", &["engine is gpu", "auto, cpu, cuda", "cuda:1"]),
    ("solve made/a.npy made/b.npy --gpu-memory lots", &["--gpu-memory", "lots", "8GB"]),
    // A machine may have a GPU, but not a hundred.
    ("solve made/a.npy made/b.npy --engine cuda:99", &["--engine cuda:99: "]),
    ("simulate made/a.npy --rounds 5 --engine cuda:99 --gpu-memory 1GB", &["--engine cuda:99: "]),
];

const OBJECTIVES: &[Case] = &[
    ("solve made/a.npy made/b.npy -o rkee", &["rkee", "did you mean rke?"]),
    ("solve made/a.npy made/b.npy -o wit", &["score wit", "every sample", "--scores FILE"]),
    ("solve made/a.npy made/b.npy -o ''", &["at character 1", "a term is expected"]),
    ("solve made/a.npy made/b.npy -o 'rke +'", &["\"rke +\" at character 6"]),
    ("solve made/a.npy made/b.npy -o 'rke rke'", &["at character 5"]),
    ("solve made/a.npy made/b.npy -o 'rke(bandwidth=)'", &["at character 15"]),
    ("solve made/a.npy made/b.npy -o 'rke(bandwith=2)'", &["bandwith", "did you mean bandwidth?"]),
    ("solve made/a.npy made/b.npy -o 'rke(kernel=gausian)'", &["gausian", "did you mean gaussian?"]),
    ("solve made/a.npy made/b.npy -o -rke", &["rke"]),
    ("solve made/a.npy made/b.npy -o 'vendi(order=0)'", &["order", "0"]),
    ("plan made/a.npy made/b.npy --gain-error 0.05", &["--gain-error is \"0.05\"", "5%", "loss=0.05"]),
    ("plan made/a.npy made/b.npy --gain-error 5% -o vendi", &["a plan", "vendi"]),
    ("plan made/a.npy --gain-error 5%", &["a plan", "two arms"]),
    ("plan made/a.npy made/b.npy --weight-error 2", &["error of the weights is 2", "0.05"]),
    ("plan made/a.npy made/b.npy --gain-error 5% --costs a=0,b=1", &["cost of arm a is 0", "positive"]),
    ("solve made/a.npy made/b.npy --fees c=1", &["no arm c", "a, b"]),
    ("solve made/a.npy made/b.npy --fees a=-1,b=0", &["fee of a is -1", "0 or more"]),
    ("solve made/a.npy made/b.npy --fees a=1", &["arm b has no fee", "every arm, 0 if it has none", "a, b"]),
    ("solve made/a.npy made/b.npy -o 'rke + cost' --costs a=1", &["arm b has no cost", "every arm, 0 if it has none"]),
    ("solve made/a.npy made/b.npy --fees a=1,b=1 --within 0.05", &["--within is \"0.05\"", "5% for", "loss=0.05"]),
    ("solve made/a.npy made/b.npy --fees a=1,b=1 --within 5", &["--within is \"5\"", "5% for", "loss=5"]),
    ("solve made/a.npy made/b.npy --floor a=x%", &["floor of a is \"x%\"", "0.6 or 60%"]),
    ("solve made/a.npy made/b.npy --floor a=160%", &["floor of a is 1.6", "between 0 and 1"]),
    ("solve made/a.npy made/b.npy --within 5%", &["the cheapest mixture needs prices"]),
    ("solve made/a.npy made/b.npy --fees a=1 --within much", &["--within is \"much\"", "such as 5%", "loss=0.001"]),
    ("solve made/a.npy made/b.npy --fees a=1,b=1 --costs a=1,b=2", &["number of samples"]),
    ("solve made/a.npy made/b.npy --costs a=1,b=2 --samples -3", &["samples is -3"]),
    ("solve made/a.npy made/b.npy -o vendi --fees a=1,b=1", &["the cheapest mixture", "vendi"]),
    ("solve made/a.npy made/b.npy --front precission", &["precission"]),
    ("solve made/a.npy made/b.npy --front precision", &["precision needs a reference"]),
    ("solve made/a.npy made/b.npy --front=-rke", &["weight of rke", "positive"]),
    ("solve made/a.npy made/b.npy --bandwidths wide", &["--bandwidths is \"wide\"", "auto"]),
    ("solve made/a.npy made/b.npy --bandwidths 1,-2", &["bandwidths is \"1,-2\""]),
    (
        "solve made/a.npy made/b.npy -o 'rke(kernel=cosine)' --bandwidths auto",
        &["a range of bandwidths needs a kernel"],
    ),
    ("solve made/a.npy made/b.npy -b -1", &["bandwidth is -1", "must be"]),
    ("solve made/a.npy made/b.npy -b 0", &["bandwidth is 0", "must be"]),
    ("solve made/a.npy made/b.npy -b NaN", &["bandwidth is NaN", "must be"]),
    ("solve made/a.npy made/b.npy -b inf", &["--bandwidth is inf", "must be"]),
    ("solve made/a.npy made/b.npy -b 1e-200", &["--bandwidth is 1e-200", "at least 1e-18"]),
    ("solve made/a.npy made/b.npy --bandwidths 1e-200", &["arm a is not finite", "a larger bandwidth"]),
    ("solve made/a.npy made/b.npy --samples 0", &["needs prices", "--fees ARM=FEE", "--costs ARM=COST"]),
    ("solve made/a.npy made/b.npy --cap a=0.1,b=0.2", &["and the caps to 0.3;"]),
    ("solve made/zeros.npy z=made/zeros.npy", &["bandwidth"]),
    ("solve made/a.npy made/b.npy -o kid", &["kid needs a reference set", "--reference PATH"]),
    (
        "solve made/a.npy made/b.npy -r made/reference.npy -o kid --bandwidth 20",
        &["the bandwidth of kid is 20", "KID has one kernel, (x·y/d + 1)³", "write mmd(bandwidth=20)"],
    ),
    (
        "curate made/a.npy made/b.npy -r made/reference.npy -o 'kid(bandwidth=20)' --count 2",
        &["KID has one kernel, (x·y/d + 1)³", "write mmd(bandwidth=20)"],
    ),
    ("solve made/a.npy made/b.npy -o fid", &["fid needs a reference set", "--reference PATH"]),
    ("solve made/a.npy made/b.npy -o 'rke - 0.2*precision'", &["precision needs a reference set", "--reference PATH"]),
    ("solve made/a.npy made/b.npy -o 'rke + cost'", &["cost needs", "--costs ARM=COST"]),
    ("solve made/a.npy made/b.npy -o 'rke + cost' --costs a=1", &["arm b has no cost"]),
    ("solve made/a.npy made/b.npy -o 'rke + cost' --costs a=1,b=2,c=3", &["no arm c", "a, b"]),
    ("solve made/a.npy made/b.npy -o 'rke + cost' --costs a=1,a=2,b=1", &["cost of a is given twice"]),
    ("solve made/a.npy made/b.npy -o 'rke + cost' --costs a=dear,b=1", &["cost of a is \"dear\"", "finite number"]),
    ("solve made/a.npy made/b.npy -o 'rke + cost' --costs a=nan,b=1", &["cost of a is \"nan\"", "finite number"]),
    ("solve made/a.npy made/b.npy -o 'rke + cost' --costs 3", &["\"3\" is not a valid cost", "ARM=NUMBER"]),
    ("solve made/a.npy made/b.npy -o wit --scores made/missing.json", &["cannot read made/missing.json"]),
    ("solve made/a.npy made/b.npy -o wit --scores made/scores-not.json", &["made/scores-not.json", "JSON object"]),
    ("solve made/a.npy made/b.npy -o wit --scores made/scores-list.json", &["made/scores-list.json", "JSON object"]),
    (
        "solve made/a.npy made/b.npy -o wit --scores made/scores-unknown.json",
        &["wit", "c, which is not an arm", "a, b"],
    ),
    ("solve made/a.npy made/b.npy -o wit --scores made/scores-short.json", &["wit", "2", "20"]),
    ("solve made/a.npy made/b.npy -o wit --scores made/scores-half.json", &["wit is not given for b", "every arm"]),
    ("solve made/a.npy made/b.npy -o with --scores made/scores.json", &["score with needs a value for every sample"]),
    ("solve made/a.npy made/b.npy --floor a=0.6,b=0.6", &["floors", "1.2"]),
    ("solve made/a.npy made/b.npy --floor a=0.6 --cap a=0.5", &["the floor of a is 0.6 and its cap 0.5"]),
    ("solve made/a.npy made/b.npy --cap a=0.4,b=0.4", &["caps", "0.8"]),
    ("solve made/a.npy made/b.npy --floor c=0.1", &["no arm c"]),
    ("solve made/a.npy made/b.npy --floor a=-0.1", &["the floor of a is -0.1"]),
];

const SCORES: &[Case] = &[
    ("score made/a.npy made/b.npy --metrics rkee", &["rkee", "did you mean rke?"]),
    ("score made/a.npy made/b.npy --metrics fid", &["fid needs a reference set", "--reference PATH"]),
    ("score made/a.npy made/b.npy -r made/reference.npy --preset torch-fidelty", &["did you mean torch-fidelity?"]),
    ("score made/a.npy made/b.npy -r made/reference.npy --preset zzz", &["zzz", "torch-fidelity"]),
    ("score made/a.npy made/b.npy -r made/reference.npy --neighbours 0", &["--neighbours is 0", "at least 1"]),
    ("score made/a.npy made/b.npy --metrics rke --neighbours 0", &["--neighbours is 0", "at least 1"]),
    ("score made/a.npy made/b.npy --metrics rke --subset-size 0", &["--subset-size is 0", "at least 2"]),
    ("score made/a.npy made/b.npy --metrics rke --subsets 0", &["--subsets is 0", "at least 1"]),
    ("score made/a.npy made/b.npy --metrics rke,rke", &["metric rke is listed twice"]),
    (
        "score made/a.npy made/b.npy -r made/reference.npy --neighbours 18446744073709551615",
        &["--neighbours is 18446744073709551615", "take fewer"],
    ),
    (
        "score made/a.npy made/b.npy -r made/reference.npy --metrics kid --subsets 18446744073709551615",
        &["--subsets is 18446744073709551615", "at most 5000000 for subsets of 20"],
    ),
    (
        "score made/a.npy made/b.npy -r made/reference.npy --neighbours 20",
        &["--neighbours is 20", "samples of arm a, 20"],
    ),
    ("score made/a.npy made/b.npy -r made/reference.npy --subset-size 21", &["--subset-size is 21", "20"]),
    ("score made/a.npy made/b.npy -r made/reference.npy --subset-size 1", &["1"]),
    ("score made/a.npy made/b.npy -r made/reference.npy --subsets 0", &["0", "at least 1"]),
    ("score made/a.npy made/b.npy --order 0", &["order", "0"]),
    ("score made/a.npy made/b.npy --order -1", &["order", "-1"]),
    ("score made/a.npy made/b.npy --order nan", &["order", "NaN"]),
    ("score made/a.npy made/b.npy --weights a=-1,b=2", &["weight of a is -1"]),
    ("score made/a.npy made/b.npy --weights a=0,b=0", &["all weights are 0", "positive"]),
    ("score made/a.npy made/b.npy --weights a=1,c=1", &["no arm c"]),
    ("score made/a.npy made/b.npy --weights a=0.5", &["sum of the weights is 0.5", "must be 1"]),
    ("score made/a.npy made/b.npy --weights a=1,b=3", &["sum of the weights is 4", "must be 1"]),
    ("score made/a.npy made/b.npy -b -3", &["bandwidth is -3"]),
    ("score made/one.npy made/b.npy -r made/reference.npy", &["one"]),
];

const SIMULATIONS: &[Case] = &[
    (
        "simulate made/a.npy made/b.npy -b 2 --rounds 5 --until loss=50",
        &["--until is loss=50", "less than the gain of these arms", "5% of the gain"],
    ),
    ("simulate made/a.npy made/b.npy --policy adaptiv", &["adaptiv", "did you mean adaptive?"]),
    ("simulate made/a.npy made/b.npy --policy 'cab(sensitivty=2)'", &["sensitivty", "did you mean sensitivity?"]),
    ("simulate made/a.npy made/b.npy --policy 'cab(sensitivity=-2)'", &["sensitivity is -2"]),
    ("simulate made/a.npy made/b.npy --policy 'cab(sensitivity=2'", &["cab(sensitivity=2", "at character"]),
    ("simulate made/a.npy made/b.npy --policy greedy,greedy", &["greedy", "listed once"]),
    ("simulate made/a.npy made/b.npy --policy ,", &["policy"]),
    ("simulate made/a.npy made/b.npy --select betterhalf", &["select is \"betterhalf\"", "did you mean better-half?"]),
    ("simulate made/a.npy made/b.npy --rounds 0", &["rounds is 0"]),
    ("simulate made/a.npy made/b.npy --seeds 0", &["seeds is 0"]),
    ("simulate made/a.npy made/b.npy --batch 0", &["batch is 0"]),
    ("simulate made/a.npy made/b.npy --in-flight 0", &["--in-flight is 0", "a whole number, at least 1"]),
    ("simulate made/a.npy made/b.npy --checkpoints 0", &["checkpoints is 0"]),
    ("simulate made/a.npy made/b.npy --hold 3", &["hold is 3", "at least 8"]),
    ("simulate made/a.npy made/b.npy --feature-error 0", &["--feature-error is 0", "at least 0.0039"]),
    ("simulate made/a.npy made/b.npy --feature-error 1e-300", &["--feature-error is 1e-300, but"]),
    ("simulate made/a.npy made/b.npy --known -5", &["--known is -5, but it must be a whole number, 0 or more"]),
    (
        "simulate made/a.npy made/b.npy --known 18446744073709551616",
        &["--known is 18446744073709551616", "at most 184467"],
    ),
    ("simulate made/a.npy made/b.npy --rounds many", &["--rounds is \"many\"", "a whole number, at least 1"]),
    ("simulate made/a.npy made/b.npy --seeds 1.5", &["--seeds is 1.5", "a whole number, at least 1"]),
    ("simulate made/a.npy made/b.npy --known 99999999999", &["--known is 99999999999, but it must be less"]),
    ("simulate made/a.npy made/b.npy --known 9223372036854775807", &["--known is 9223372036854775807", "less"]),
    ("simulate made/a.npy made/b.npy --batch 99999999999", &["--batch is 99999999999, but it must be less"]),
    ("simulate made/a.npy made/b.npy --batch 9223372036854775808 --hold 100", &["--batch is 9223372036854775808"]),
    ("simulate made/a.npy made/b.npy --batch 9223372036854775808 --forget window=100", &["--batch is 92233720368"]),
    ("simulate made/a.npy made/b.npy --seeds 99999999999", &["--seeds is 99999999999, but it must be less"]),
    ("simulate made/a.npy made/b.npy --seeds 2 --rounds 9223372036854775807", &["--rounds is 9223372036854775807"]),
    ("simulate made/a.npy made/b.npy --policy 'cab(beta=1e308)'", &["beta is 1e308", "up to 1e50"]),
    ("simulate made/a.npy made/b.npy --policy 'sparse(keep=1,beta=1e308)'", &["beta is 1e308", "up to 1e50"]),
    ("curate made/a.npy made/b.npy -n 9223372036854775807", &["--count is 9223372036854775807", "at most 40"]),
    ("curate made/a.npy made/b.npy -n 41 --sweeps 9223372036854775807", &["--count is 41", "at most 40"]),
    ("simulate made/a.npy made/b.npy -o 'rke(kernel=cosine)' --hold 9", &["cosine", "gaussian", "leave `hold` out"]),
    ("simulate made/a.npy made/b.npy --forget week=1", &["week=1", "window=N or half-life=N"]),
    ("simulate made/a.npy made/b.npy --forget window=3", &["window=3", "at least 8"]),
    (
        "simulate made/a.npy made/b.npy --rounds 100 --no-replacement --policy uniform",
        &["has no samples left", "uniform", "20"],
    ),
    ("simulate made/a.npy made/b.npy -r made/reference.npy -o fid", &["fid", "offline only"]),
    ("simulate made/a.npy made/b.npy -o vendi", &["vendi", "offline only"]),
    ("simulate made/a.npy made/b.npy -o mmd", &["mmd needs a reference set", "--reference PATH"]),
];

const OUTPUTS: &[Case] = &[
    ("solve made/a.npy made/b.npy --html nowhere/report.html", &["no folder nowhere", "create it"]),
    ("solve made/a.npy made/b.npy --html made/folder", &["made/folder", "folder", "name a file"]),
    ("solve made/a.npy made/b.npy --html /proc/report.html", &["cannot write /proc/report.html"]),
    ("solve made/a.npy made/b.npy --svg made/notes.txt", &["made/notes.txt is a file", "name a folder"]),
    ("solve made/a.npy made/b.npy --png made/notes.txt/figures", &["made/notes.txt is a file", "name a folder"]),
    ("solve made/missing.npy made/b.npy --svg figures --html report.html", &["made/missing.npy"]),
    ("solve made/a.npy made/b.npy --images made/a.npy", &["--html FILE"]),
    (
        "solve made/a.npy made/b.npy --html r.html --images fashion/images/specialists.npz",
        &["tops_gan", "not an arm", "a, b"],
    ),
    ("solve made/a.npy made/b.npy --html r.html --images made/a.npy", &["made/a.npy", "8-bit pixels", "uint8"]),
    ("solve made/a.npy made/b.npy --html r.html --images load/uint8.npy", &["load/uint8.npy"]),
    ("solve made/a.npy made/b.npy --html r.html --images a=made/a.npy --texts made/texts.json", &["not both"]),
    ("solve made/a.npy made/b.npy --html r.html --texts made/texts-not.json", &["made/texts-not.json"]),
    (
        "solve made/a.npy made/b.npy --html r.html --texts made/texts-unknown.json",
        &["texts are given for c", "not an arm"],
    ),
    ("solve made/a.npy made/b.npy --html r.html --texts made/missing.json", &["cannot read made/missing.json"]),
    ("demo --html nowhere/report.html", &["no folder nowhere", "create it"]),
    ("man --folder made/notes.txt", &["made/notes.txt is a file", "name a folder"]),
];

const OTHERS: &[Case] = &[
    ("solve made/a.npy made/b.npy --threads 0", &["--threads is 0", "at least 1"]),
    ("solve made/a.npy made/b.npy --threads -1", &["--threads is -1", "at least 1"]),
    ("solve made/a.npy made/b.npy -b wide", &["--bandwidth is \"wide\", but it must be a number"]),
    ("solve made/a.npy made/b.npy --subsets=maybe", &["--subsets is \"maybe\", but it must be true or false"]),
    ("solve made/a.npy made/b.npy --config made/missing.toml", &["cannot read made/missing.toml"]),
    ("solve made/a.npy made/b.npy --config made/line.toml", &["made/line.toml: line 3"]),
    ("solve made/a.npy made/b.npy --config made/start.toml", &["made/start.toml: line 2"]),
    (
        "solve made/a.npy made/b.npy --config made/unknown.toml",
        &["unknown key \"bandwith\"", "did you mean bandwidth?"],
    ),
    (
        "solve made/a.npy made/b.npy --config made/unknown-key.toml",
        &["unknown key \"zzzzzz\"", "the keys are arms, reference"],
    ),
    ("solve made/a.npy made/b.npy --config made/type.toml", &["bandwidth is true", "number"]),
    ("solve made/a.npy made/b.npy --config made/flag.toml", &["quiet is 'very'", "true or false"]),
    ("solve made/a.npy made/b.npy --config made/number.toml", &["made/number.toml: bandwidth is \"wide\"", "a number"]),
    ("simulate made/a.npy --config made/rounds.toml", &["made/rounds.toml: rounds is 2.5", "a whole number"]),
    ("solve made/a.npy made/b.npy --config made/list.toml", &["objective is ['rke', 'mmd']", "one value"]),
    ("solve made/a.npy made/b.npy --config made/term.toml", &["made/term.toml: cannot read \"rke +\" at character 6"]),
    ("score made/a.npy made/b.npy --config made/metric.toml", &["made/metric.toml: metric is \"rkee\"", "mean rke?"]),
    ("simulate made/a.npy --config made/twice.toml", &["made/twice.toml: no-replacement is given twice"]),
    ("report made/missing.json --html r.html", &["cannot read made/missing.json"]),
    ("report made/notes.txt --html r.html", &["made/notes.txt", "--json"]),
    ("report made/other.json --html r.html", &["made/other.json", "--json"]),
    ("report made/unfinished.json --html r.html", &["made/unfinished.json", "missing field"]),
    ("report made/folder --html r.html", &["made/folder"]),
    ("report made/missing.json", &["cannot read made/missing.json"]),
    ("report - --html r.html", &["standard input", "--json"]),
];

/// Errors of the parser have its format: `error:`, the problem, and the usage.
const USAGE: &[Case] = &[
    ("sovle made/a.npy", &["unrecognized subcommand 'sovle'", "solve"]),
    ("solve", &["<ARM>"]),
    ("solve made/a.npy --objectiv rke", &["'--objectiv'", "--objective"]),
    ("completions man", &["'man'", "bash"]),
    ("schema solv", &["'solv'", "solve"]),
    ("score made/a.npy --weights a=1 --no-mixture", &["--weights", "--no-mixture", "cannot be used"]),
    ("solve made/a.npy --html ''", &["--html"]),
    ("report", &["<DOCUMENT>"]),
    ("completions tcsh", &["'tcsh'", "bash"]),
];

/// All problems with the rejection of a case.
fn complaints(line: &str, words: &[&str], run: &Run, left: &[String], start: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut check = |fine: bool, what: String| {
        if !fine {
            complaints.push(format!("modelmix {line}: {what}\n    {}", run.stderr.trim_end()));
        }
    };
    check(run.code == 2, format!("exit code {}", run.code));
    check(run.stderr.starts_with(start), format!("does not start with {start}"));
    check(run.stdout.is_empty(), format!("printed {:?}", run.stdout));
    check(left.is_empty(), format!("left {left:?} behind"));
    for word in words {
        check(run.stderr.contains(word), format!("does not say {word}"));
    }
    for word in ["panicked", "RUST_BACKTRACE", "Error {", "Some(", "\u{1b}"] {
        check(!run.stderr.contains(word), format!("says {word}"));
    }
    complaints
}

fn refused(cases: &[Case]) {
    let mut all = Vec::new();
    for (line, words) in cases {
        let world = World::new();
        let run = world.run(line);
        if std::env::var_os("SHOW_SENTENCES").is_some() {
            println!("modelmix {line}\n    {}", run.stderr.trim_end());
        }
        all.extend(complaints(line, words, &run, &world.left_behind(), "modelmix: "));
        if run.stderr.lines().count() != 1 {
            all.push(format!("modelmix {line}: not one line\n{}", run.stderr));
        }
    }
    assert!(all.is_empty(), "\n{}", all.join("\n"));
}

#[test]
fn there_are_many() {
    let count: usize =
        [FILES, ENGINES, OBJECTIVES, SCORES, SIMULATIONS, OUTPUTS, OTHERS, USAGE].iter().map(|cases| cases.len()).sum();
    assert!(count >= 120, "{count}");
}

#[test]
fn files() {
    refused(FILES);
}

#[test]
fn engines() {
    refused(ENGINES);
}

#[test]
fn objectives() {
    refused(OBJECTIVES);
}

#[test]
fn scores() {
    refused(SCORES);
}

#[test]
fn simulations() {
    refused(SIMULATIONS);
}

#[test]
fn outputs() {
    refused(OUTPUTS);
}

#[test]
fn others() {
    refused(OTHERS);
}

/// Documents are validated before they are drawn: a later version, impossible numbers or another structure are
/// rejected with the location.
#[test]
fn documents_that_were_changed() {
    let world = World::new();
    let solved = world.json("solve made/a.npy made/b.npy -o 'rke - 3*wit' --scores made/scores.json --json");
    let simulated = world.json("simulate made/a.npy made/b.npy --rounds 5 --seeds 2 --json");
    let cases: &[(&serde_json::Value, &str, serde_json::Value, &[&str])] = &[
        (&solved, "/version", "99.0".into(), &["version is 99.0", "this is modelmix", "update modelmix"]),
        (&solved, "/version", "new".into(), &["version is new", "update modelmix"]),
        (&solved, "/arms/0/weight", (-7).into(), &["/arms/0/weight is -7", "between 0 and 1"]),
        (&solved, "/arms/1/weight", 1.5.into(), &["/arms/1/weight is 1.5", "between 0 and 1"]),
        (&solved, "/arms/0/loss", 1e308.into(), &["/arms/0/loss is 1e308", "at most 1e100"]),
        (&solved, "/arms/1/score", serde_json::json!({}), &["arms[1].score: invalid type: map, expected f64"]),
        (&solved, "/command", "solv".into(), &["command is solv", "--json"]),
        (&simulated, "/optimum/weights/0", 2.into(), &["/optimum/weights/0 is 2", "`modelmix simulate --json`"]),
        (&simulated, "/policies/adaptive/loss/mean/0", (-1e308).into(), &["/loss/mean/0 is -1e308", "at most 1e100"]),
        (&simulated, "/seeds", "two".into(), &["seeds: invalid type: string"]),
    ];
    world.write("fine.json", solved.to_string());
    let unwritten = world.run("report fine.json");
    assert!(unwritten.stderr.contains("--html FILE, --svg FOLDER or --png FOLDER"), "{}", unwritten.stderr);
    world.answer("report fine.json --html fine.html");
    for (document, pointer, value, words) in cases {
        let mut changed = (*document).clone();
        *changed.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is not there")) = value.clone();
        world.write("changed.json", changed.to_string());
        let run = world.run("report changed.json --html r.html");
        assert_eq!((run.code, run.stderr.lines().count()), (2, 1), "{pointer}: {}", run.stderr);
        for word in *words {
            assert!(run.stderr.contains(word), "{pointer}: {} does not say {word}", run.stderr);
        }
        assert!(!world.path("r.html").exists(), "{pointer}");
    }
}

/// A score whose range is missing has values: the type of the error states which input is missing, not its text.
#[test]
fn only_what_is_missing_is_asked_for() {
    let world = World::new();
    let run = world.run("simulate made/a.npy made/b.npy -o 'rke + wit' --scores made/scores.json --policy vanilla");
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("score wit needs its range"), "{}", run.stderr);
    assert!(!run.stderr.contains("--scores FILE"), "{}", run.stderr);
}

#[test]
fn usage() {
    let mut all = Vec::new();
    for (line, words) in USAGE {
        let world = World::new();
        all.extend(complaints(line, words, &world.run(line), &world.left_behind(), "error: "));
    }
    assert!(all.is_empty(), "\n{}", all.join("\n"));
}
