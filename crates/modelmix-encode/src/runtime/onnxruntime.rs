//! Models run by an installed onnxruntime.

use std::sync::{Mutex, PoisonError};

use half::{bf16, f16};
use ort::ep;
use ort::session::{SessionInputValue, builder::GraphOptimizationLevel};
use ort::value::{DynValue, Outlet, Tensor, TensorElementType, TensorRef, ValueType};

use super::{
    Device, Element, Input, ModelSource, Opened, Options, Output, Session, TensorInfo, Values, first_line, library,
};
use crate::problem::Problem;

struct OnnxRuntime {
    /// `ort` runs a session through an exclusive reference. onnxruntime itself uses all threads within a run.
    session: Mutex<ort::session::Session>,
    elements: Vec<(String, TensorElementType)>,
    version: String,
    device: Device,
}

/// Opens a model.
pub(super) fn open(source: &ModelSource, options: &Options) -> Result<Opened, Problem> {
    let loaded = library::load(options.library.as_deref())?;
    let failed = |error: &dyn std::fmt::Display| {
        Problem::new(format!(
            "onnxruntime {} cannot load the model ({})",
            loaded.version,
            first_line(&error.to_string())
        ))
    };
    let builder = ort::session::Session::builder(&loaded.environment).map_err(|error| failed(&error))?;
    let builder = builder.with_intra_threads(options.threads()).map_err(|error| failed(&error))?;
    let builder = builder.with_inter_threads(1).map_err(|error| failed(&error))?;
    let builder = builder.with_optimization_level(GraphOptimizationLevel::Level3).map_err(|error| failed(&error))?;
    let mut builder = match options.device {
        Device::Cpu => builder,
        Device::Cuda(number) => {
            // TF32 rounds to ten bits, so that features would differ from those of other tools.
            let cuda = ep::CUDA::default().with_device_id(i32::from(number)).with_tf32(false).build();
            builder.with_execution_providers([cuda.error_on_failure()]).map_err(|error| {
                Problem::new(format!(
                    "onnxruntime {} cannot use CUDA ({}); install onnxruntime-gpu and its CUDA libraries, or use --device cpu",
                    loaded.version,
                    first_line(&error.to_string())
                ))
            })?
        }
    };
    let session = match source {
        ModelSource::Path(path) => builder.commit_from_file(path),
        ModelSource::Bytes(bytes) => builder.commit_from_memory(bytes),
    }
    .map_err(|error| failed(&error))?;
    let inputs: Vec<TensorInfo> = session.inputs().iter().map(info).collect();
    let outputs: Vec<TensorInfo> = session.outputs().iter().map(info).collect();
    let elements = session.inputs().iter().filter_map(|input| Some((input.name().to_owned(), tensor_type(input)?)));
    let elements = elements.collect();
    let model = OnnxRuntime { session: Mutex::new(session), elements, version: loaded.version, device: options.device };
    Ok((Box::new(model), inputs, outputs))
}

fn tensor_type(outlet: &Outlet) -> Option<TensorElementType> {
    match outlet.dtype() {
        ValueType::Tensor { ty, .. } => Some(*ty),
        _ => None,
    }
}

fn info(outlet: &Outlet) -> TensorInfo {
    use TensorElementType as Type;
    let (shape, element) = match outlet.dtype() {
        ValueType::Tensor { ty, shape, .. } => {
            let element = match ty {
                Type::Float16 | Type::Bfloat16 | Type::Float32 | Type::Float64 => Element::Floats,
                Type::Int32 | Type::Int64 => Element::Integers,
                other => Element::Other(other.to_string()),
            };
            // A size that may differ is −1.
            (shape.iter().map(|&size| usize::try_from(size).ok()).collect(), element)
        }
        _ => (Vec::new(), Element::Other("sequence or map".to_owned())),
    };
    TensorInfo { name: outlet.name().to_owned(), shape, element }
}

impl OnnxRuntime {
    /// An input in the element type of the model.
    fn value<'v>(&self, input: &Input<'v>) -> ort::Result<SessionInputValue<'v>> {
        use TensorElementType as Type;
        let element = self.elements.iter().find(|(name, _)| name == input.name).map(|(_, element)| *element);
        let shape = input.shape.to_vec();
        Ok(match (input.values, element) {
            (Values::Floats(values), Some(Type::Float16)) => {
                let values: Vec<f16> = values.iter().map(|&value| f16::from_f32(value)).collect();
                Tensor::from_array((shape, values))?.into()
            }
            (Values::Floats(values), Some(Type::Bfloat16)) => {
                let values: Vec<bf16> = values.iter().map(|&value| bf16::from_f32(value)).collect();
                Tensor::from_array((shape, values))?.into()
            }
            (Values::Floats(values), Some(Type::Float64)) => {
                let values: Vec<f64> = values.iter().map(|&value| f64::from(value)).collect();
                Tensor::from_array((shape, values))?.into()
            }
            (Values::Integers(values), Some(Type::Int32)) => {
                let narrow = |&value: &i64| {
                    i32::try_from(value).map_err(|_| ort::Error::new(format!("{value} has more than 32 bits")))
                };
                let values = values.iter().map(narrow).collect::<Result<Vec<i32>, _>>()?;
                Tensor::from_array((shape, values))?.into()
            }
            (Values::Floats(values), _) => TensorRef::from_array_view((shape, values))?.into(),
            (Values::Integers(values), _) => TensorRef::from_array_view((shape, values))?.into(),
        })
    }
}

impl Session for OnnxRuntime {
    fn run(&self, inputs: &[Input<'_>], outputs: &[&str]) -> Result<Vec<Output>, Problem> {
        let failed = |error: ort::Error| {
            let reason = first_line(&error.to_string());
            Problem::new(format!("onnxruntime {} cannot run the model ({reason})", self.version))
        };
        let values = inputs.iter().map(|input| Ok((input.name, self.value(input)?)));
        let values = values.collect::<ort::Result<Vec<_>>>().map_err(failed)?;
        let mut session = self.session.lock().unwrap_or_else(PoisonError::into_inner);
        let results = session.run(values).map_err(failed)?;
        outputs
            .iter()
            .map(|name| {
                let value = results.get(name);
                value.map_or_else(
                    || Err(Problem::new(format!("the output {name} is missing"))),
                    |value| output(name, value),
                )
            })
            .collect()
    }

    fn describe(&self) -> String {
        format!("onnxruntime {} on {}", self.version, self.device)
    }
}

fn output(name: &str, value: &DynValue) -> Result<Output, Problem> {
    use TensorElementType as Type;
    let ValueType::Tensor { ty, shape, .. } = value.dtype() else {
        return Err(Problem::new(format!("the model's output {name} is no tensor; choose an output that is one")));
    };
    let values: ort::Result<Vec<f32>> = match ty {
        Type::Float32 => value.try_extract_tensor::<f32>().map(|(_, values)| values.to_vec()),
        Type::Float64 => extract::<f64>(value, |value| value as f32),
        Type::Float16 => extract::<f16>(value, f16::to_f32),
        Type::Bfloat16 => extract::<bf16>(value, bf16::to_f32),
        Type::Int64 => extract::<i64>(value, |value| value as f32),
        Type::Int32 => extract::<i32>(value, |value| value as f32),
        Type::Int8 => extract::<i8>(value, f32::from),
        Type::Uint8 => extract::<u8>(value, f32::from),
        other => {
            return Err(Problem::new(format!(
                "the model's output {name} has elements of type {other}; choose an output of floats"
            )));
        }
    };
    let values = values.map_err(|error| Problem::new(first_line(&error.to_string())))?;
    let shape = shape.iter().map(|&size| usize::try_from(size).unwrap_or(0)).collect();
    Ok(Output { name: name.to_owned(), shape, values })
}

fn extract<T: ort::value::PrimitiveTensorElementType + Copy>(
    value: &DynValue,
    convert: impl Fn(T) -> f32,
) -> ort::Result<Vec<f32>> {
    value.try_extract_tensor::<T>().map(|(_, values)| values.iter().map(|&value| convert(value)).collect())
}
