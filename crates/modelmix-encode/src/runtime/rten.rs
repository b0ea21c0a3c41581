//! Models run by rten.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rten::{DataType, Dimension, LoadError, LoadErrorKind, ModelOptions, NodeId, RunOptions, ThreadPool, ValueType};
use rten_tensor::{AsView, Layout};

use super::{Device, Element, Input, ModelSource, Opened, Options, Output, Session, TensorInfo, Values, first_line};
use crate::onnx::cubic::{self, Unsupported};
use crate::onnx::external;
use crate::problem::Problem;

/// The version of rten, as Cargo.lock has it.
const VERSION: &str = "0.27.0";

/// What to do if rten cannot run a model.
const REMEDY: &str = "use the runtime onnxruntime";

struct Rten {
    model: rten::Model,
    /// The threads of one run.
    threads: usize,
    /// Pools of threads that no run uses now. Runs that share a pool would wait for each other.
    idle: Mutex<Vec<Arc<ThreadPool>>>,
}

/// Opens a model.
pub(super) fn open(source: &ModelSource, options: &Options) -> Result<Opened, Problem> {
    if options.device != Device::Cpu {
        return Err(Problem::new(format!(
            "rten does not run on {}; use the runtime onnxruntime for a GPU",
            options.device
        )));
    }
    let model = guarded(|| load(source))??;
    let inputs = model.input_ids().iter().map(|&id| info(&model, id)).collect::<Result<Vec<_>, _>>()?;
    let outputs = model.output_ids().iter().map(|&id| info(&model, id)).collect::<Result<Vec<_>, _>>()?;
    let (threads, idle) = (options.threads(), Mutex::default());
    Ok((Box::new(Rten { model, threads, idle }), inputs, outputs))
}

fn load(source: &ModelSource) -> Result<rten::Model, Problem> {
    let mut options = ModelOptions::with_all_ops();
    options.prepack_weights(true);
    let bytes = match source {
        ModelSource::Bytes(bytes) => bytes.clone(),
        ModelSource::Path(path) => external::read(path)?,
    };
    if !external::is_model(&bytes) {
        return Err(Problem::new(
            "it is not an ONNX model, or it is cut off; pass an .onnx file, or download it again",
        ));
    }
    // rten 0.27 runs a cubic resize with a linear filter, and says nothing.
    let without = cubic::without_cubic_resizes(&bytes).map_err(|Unsupported(what)| {
        Problem::new(format!("it resizes with a cubic filter {what}, which rten cannot run; {REMEDY}"))
    })?;
    let bytes = without.unwrap_or(bytes);
    if let ModelSource::Path(path) = source {
        for file in external::data_files_beside(path, &bytes)? {
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            options.external_data(&name, external::read(&file)?);
        }
    }
    options.load(bytes).map_err(|error| unloadable(&error))
}

fn unloadable(error: &LoadError) -> Problem {
    let reason = first_line(&error.to_string());
    Problem::new(match error.kind() {
        LoadErrorKind::OperatorInvalid => format!("rten cannot run an operator of the model ({reason}); {REMEDY}"),
        LoadErrorKind::ExternalDataError => format!("rten cannot read the data file of the model ({reason}); {REMEDY}"),
        LoadErrorKind::GraphError | LoadErrorKind::OptimizeError => {
            format!("rten cannot load the model ({reason}); {REMEDY}")
        }
        _ => format!("it is not an ONNX model ({reason}); pass an .onnx file"),
    })
}

/// Runs code that may panic on a model that it does not expect.
fn guarded<T>(work: impl FnOnce() -> T) -> Result<T, Problem> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let reason = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        let reason = first_line(reason.unwrap_or_default());
        Problem::new(format!("rten failed on the model ({reason}); {REMEDY}"))
    })
}

fn info(model: &rten::Model, id: NodeId) -> Result<TensorInfo, Problem> {
    let node = model.node_info(id);
    let name = node.as_ref().and_then(|node| node.name());
    let (Some(node), Some(name)) = (node.as_ref(), name) else {
        return Err(Problem::new("it has an input or output without a name; export the model again"));
    };
    let shape = node.shape().unwrap_or_default();
    let shape = shape.iter().map(|size| match size {
        Dimension::Fixed(size) => Some(*size),
        Dimension::Symbolic(_) => None,
    });
    let element = match node.dtype() {
        Some(ValueType::Tensor(DataType::Float)) => Element::Floats,
        Some(ValueType::Tensor(DataType::Int32)) => Element::Integers,
        Some(other) => Element::Other(other.to_string()),
        None => Element::Other("unknown".to_owned()),
    };
    Ok(TensorInfo { name: name.to_owned(), shape: shape.collect(), element })
}

impl Rten {
    fn idle(&self) -> MutexGuard<'_, Vec<Arc<ThreadPool>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn id(&self, name: &str) -> Result<NodeId, Problem> {
        self.model.node_id(name).map_err(|error| Problem::new(first_line(&error.to_string())))
    }
}

impl Session for Rten {
    fn run(&self, inputs: &[Input<'_>], outputs: &[&str]) -> Result<Vec<Output>, Problem> {
        let misshapen = |error: &dyn std::error::Error| Problem::new(first_line(&error.to_string()));
        let values = inputs.iter().map(|input| {
            let value: rten::ValueOrView<'_> = match input.values {
                Values::Floats(values) => {
                    rten::ValueView::from_shape(input.shape, values).map_err(|error| misshapen(&error))?.into()
                }
                Values::Integers(values) => {
                    let values = narrowed(input.name, values)?;
                    rten::Value::from_shape(input.shape, values).map_err(|error| misshapen(&error))?.into()
                }
            };
            Ok((self.id(input.name)?, value))
        });
        let values = values.collect::<Result<Vec<_>, Problem>>()?;
        let ids = outputs.iter().map(|name| self.id(name)).collect::<Result<Vec<_>, _>>()?;
        let pool = self.idle().pop().unwrap_or_else(|| Arc::new(ThreadPool::with_num_threads(self.threads)));
        let run = RunOptions::default().with_thread_pool(Some(Arc::clone(&pool)));
        let results = guarded(|| self.model.run(values, &ids, Some(run)));
        self.idle().push(pool);
        let results = results?.map_err(|error| {
            Problem::new(format!("rten cannot run the model ({}); {REMEDY}", first_line(&error.to_string())))
        })?;
        outputs.iter().zip(results).map(|(name, value)| output(name, &value)).collect()
    }

    fn describe(&self) -> String {
        format!("rten {VERSION} on cpu")
    }
}

/// rten computes with 32-bit integers.
fn narrowed(name: &str, values: &[i64]) -> Result<Vec<i32>, Problem> {
    let narrow = |&value: &i64| {
        i32::try_from(value).map_err(|_| {
            Problem::new(format!("the input {name} has the value {value}, which is beyond rten's 32 bits; {REMEDY}"))
        })
    };
    values.iter().map(narrow).collect()
}

fn output(name: &str, value: &rten::Value) -> Result<Output, Problem> {
    use rten::Value;
    let (shape, values) = match value {
        Value::FloatTensor(tensor) => (tensor.shape().to_vec(), tensor.to_vec()),
        Value::Int32Tensor(tensor) => (tensor.shape().to_vec(), tensor.iter().map(|&value| value as f32).collect()),
        Value::Int8Tensor(tensor) => (tensor.shape().to_vec(), tensor.iter().map(|&value| value.into()).collect()),
        Value::UInt8Tensor(tensor) => (tensor.shape().to_vec(), tensor.iter().map(|&value| value.into()).collect()),
        _ => {
            return Err(Problem::new(format!("the model's output {name} is no tensor; choose an output that is one")));
        }
    };
    Ok(Output { name: name.to_owned(), shape, values })
}
