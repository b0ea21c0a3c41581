//! Inception-v3 as FID uses it (the weights of 2015-12-05), from the files that users of pytorch-fid, torch-fidelity,
//! StyleGAN and clean-fid have: tensors in, an ONNX model out. The layers are fixed here; their widths are the file's.

mod layers;

use std::collections::BTreeMap;

use self::layers::Folded;
use crate::onnx::{Attribute, Dimension, Graph, Value};
use crate::problem::Problem;
use crate::torch_file::Tensor;

/// The name of the model's input: images of shape [n, 3, 299, 299] with values (x − 128) / 128 of 8-bit pixels x.
///
/// pytorch-fid and dgm-eval pass 2x / 255 − 1 instead, which is larger by x / 32640, up to 1 / 128.
pub const INPUT: &str = "images";

/// The name of the model's output: the features of the last pooling layer, of shape [n, 2048].
pub const OUTPUT: &str = "pool3";

/// The side of the images, in pixels.
pub const SIDE: usize = 299;

/// The model as the bytes of an ONNX file.
///
/// It is the network of the weights of 2015-12-05, which differs from torchvision's: average pools do not count
/// padding, and the last block has a maximum pool. Every batch normalisation is folded into its convolution, in 64-bit
/// floats.
///
/// # Errors
/// If tensors are missing or have unexpected shapes: the file holds another network.
pub fn onnx(tensors: &BTreeMap<String, Tensor>) -> Result<Vec<u8>, Problem> {
    let convolutions = layers::convolutions(tensors)?;
    let mut network = Network { convolutions, graph: Graph::new("inception-v3-fid") };
    let side = Dimension::Fixed(SIDE);
    let images = network.graph.input(INPUT, &[Dimension::Free("n"), Dimension::Fixed(3), side, side]);
    let mut x = Layer { value: images, width: 3 };
    for (name, stride, padding) in
        [("Conv2d_1a_3x3", 2, Padding::None), ("Conv2d_2a_3x3", 1, Padding::None), ("Conv2d_2b_3x3", 1, Padding::Same)]
    {
        x = network.convolution(&x, name, stride, padding)?;
    }
    x = network.reduce(&x);
    x = network.convolution(&x, "Conv2d_3b_1x1", 1, Padding::None)?;
    x = network.convolution(&x, "Conv2d_4a_3x3", 1, Padding::None)?;
    x = network.reduce(&x);
    for block in ["Mixed_5b", "Mixed_5c", "Mixed_5d"] {
        x = network.block_a(&x, block)?;
    }
    x = network.block_b(&x, "Mixed_6a")?;
    for block in ["Mixed_6b", "Mixed_6c", "Mixed_6d", "Mixed_6e"] {
        x = network.block_c(&x, block)?;
    }
    x = network.block_d(&x, "Mixed_7a")?;
    x = network.block_e(&x, "Mixed_7b", Pool::Average)?;
    x = network.block_e(&x, "Mixed_7c", Pool::Maximum)?;
    let pooled = network.graph.node("GlobalAveragePool", &[&x.value], &[]);
    let features = network.graph.node("Flatten", &[&pooled], &[("axis", Attribute::Integer(1))]);
    Ok(network.graph.into_model(OUTPUT, &features, &[Dimension::Free("n"), Dimension::Fixed(x.width)]))
}

/// A value of the network and its number of channels.
#[derive(Clone, Debug)]
struct Layer {
    value: Value,
    width: usize,
}

/// What is added around the input of a convolution.
#[derive(Clone, Copy, Debug)]
enum Padding {
    None,
    /// As much as keeps height and width at stride 1.
    Same,
}

/// The pool in the last branch of a block.
#[derive(Clone, Copy, Debug)]
enum Pool {
    /// The mean of the values that are there: padding is not counted.
    Average,
    Maximum,
}

/// The network under construction. Convolutions are removed as they are used.
struct Network {
    convolutions: BTreeMap<String, Folded>,
    graph: Graph,
}

impl Network {
    /// Convolution and ReLU.
    fn convolution(&mut self, x: &Layer, name: &str, stride: i64, padding: Padding) -> Result<Layer, Problem> {
        let sum = self.linear(x, name, stride, padding)?;
        Ok(self.relu(&sum))
    }

    fn relu(&mut self, x: &Layer) -> Layer {
        Layer { value: self.graph.node("Relu", &[&x.value], &[]), width: x.width }
    }

    /// Convolution alone.
    fn linear(&mut self, x: &Layer, name: &str, stride: i64, padding: Padding) -> Result<Layer, Problem> {
        let folded = self.convolutions.remove(name);
        let Some(Folded { shape, weights, bias }) = folded else {
            return Err(Problem::new(format!("its layer {name} is missing; download it again")));
        };
        let [outputs, inputs, height, width] = shape;
        if inputs != x.width {
            return Err(Problem::new(format!(
                "its layer {name} takes {inputs} channels, but the layers before it give {}, so it is not FID's Inception-v3; pass the weights of pytorch-fid, torch-fidelity or StyleGAN",
                x.width
            )));
        }
        let pads = match padding {
            Padding::None => [0; 4],
            Padding::Same => [height / 2, width / 2, height / 2, width / 2].map(|pad| pad as i64),
        };
        let weights = self.graph.weights(&format!("{name}.weight"), &shape, &weights);
        let bias = self.graph.weights(&format!("{name}.bias"), &[outputs], &bias);
        let kernel = [height as i64, width as i64];
        let attributes = [
            ("kernel_shape", Attribute::Integers(&kernel)),
            ("strides", Attribute::Integers(&[stride, stride])),
            ("pads", Attribute::Integers(&pads)),
        ];
        let value = self.graph.node("Conv", &[&x.value, &weights, &bias], &attributes);
        Ok(Layer { value, width: outputs })
    }

    /// Convolutions in a row that keep height and width.
    fn chain(&mut self, x: &Layer, block: &str, names: &[&str]) -> Result<Layer, Problem> {
        let mut x = x.clone();
        for name in names {
            x = self.convolution(&x, &format!("{block}.{name}"), 1, Padding::Same)?;
        }
        Ok(x)
    }

    /// Convolutions in a row, of which the last halves height and width.
    fn halving_chain(&mut self, x: &Layer, block: &str, names: &[&str], last: &str) -> Result<Layer, Problem> {
        let x = self.chain(x, block, names)?;
        self.convolution(&x, &format!("{block}.{last}"), 2, Padding::None)
    }

    /// A maximum pool that halves height and width.
    fn reduce(&mut self, x: &Layer) -> Layer {
        let attributes = [("kernel_shape", Attribute::Integers(&[3, 3])), ("strides", Attribute::Integers(&[2, 2]))];
        Layer { value: self.graph.node("MaxPool", &[&x.value], &attributes), width: x.width }
    }

    /// The last branch of a block: a 3 × 3 pool that keeps height and width, and a 1 × 1 convolution after it.
    ///
    /// An average and a 1 × 1 convolution can change places, as the weights of the average add up to one and those of
    /// the convolution are the same everywhere. The convolution goes first, since it leaves a quarter of the channels.
    fn pool(&mut self, x: &Layer, block: &str, pool: Pool) -> Result<Layer, Problem> {
        let name = format!("{block}.branch_pool");
        let attributes = [
            ("kernel_shape", Attribute::Integers(&[3, 3])),
            ("strides", Attribute::Integers(&[1, 1])),
            ("pads", Attribute::Integers(&[1; 4])),
        ];
        match pool {
            Pool::Average => {
                let sum = self.linear(x, &name, 1, Padding::None)?;
                // Without the attribute count_include_pad, an average does not count padding.
                let value = self.graph.node("AveragePool", &[&sum.value], &attributes);
                Ok(self.relu(&Layer { value, width: sum.width }))
            }
            Pool::Maximum => {
                let value = self.graph.node("MaxPool", &[&x.value], &attributes);
                self.convolution(&Layer { value, width: x.width }, &name, 1, Padding::None)
            }
        }
    }

    fn concatenate(&mut self, branches: &[Layer]) -> Layer {
        let values: Vec<&Value> = branches.iter().map(|branch| &branch.value).collect();
        let value = self.graph.node("Concat", &values, &[("axis", Attribute::Integer(1))]);
        Layer { value, width: branches.iter().map(|branch| branch.width).sum() }
    }

    fn block_a(&mut self, x: &Layer, block: &str) -> Result<Layer, Problem> {
        let branches = [
            self.chain(x, block, &["branch1x1"])?,
            self.chain(x, block, &["branch5x5_1", "branch5x5_2"])?,
            self.chain(x, block, &["branch3x3dbl_1", "branch3x3dbl_2", "branch3x3dbl_3"])?,
            self.pool(x, block, Pool::Average)?,
        ];
        Ok(self.concatenate(&branches))
    }

    fn block_b(&mut self, x: &Layer, block: &str) -> Result<Layer, Problem> {
        let branches = [
            self.halving_chain(x, block, &[], "branch3x3")?,
            self.halving_chain(x, block, &["branch3x3dbl_1", "branch3x3dbl_2"], "branch3x3dbl_3")?,
            self.reduce(x),
        ];
        Ok(self.concatenate(&branches))
    }

    fn block_c(&mut self, x: &Layer, block: &str) -> Result<Layer, Problem> {
        let double = ["branch7x7dbl_1", "branch7x7dbl_2", "branch7x7dbl_3", "branch7x7dbl_4", "branch7x7dbl_5"];
        let branches = [
            self.chain(x, block, &["branch1x1"])?,
            self.chain(x, block, &["branch7x7_1", "branch7x7_2", "branch7x7_3"])?,
            self.chain(x, block, &double)?,
            self.pool(x, block, Pool::Average)?,
        ];
        Ok(self.concatenate(&branches))
    }

    fn block_d(&mut self, x: &Layer, block: &str) -> Result<Layer, Problem> {
        let branches = [
            self.halving_chain(x, block, &["branch3x3_1"], "branch3x3_2")?,
            self.halving_chain(x, block, &["branch7x7x3_1", "branch7x7x3_2", "branch7x7x3_3"], "branch7x7x3_4")?,
            self.reduce(x),
        ];
        Ok(self.concatenate(&branches))
    }

    fn block_e(&mut self, x: &Layer, block: &str, pool: Pool) -> Result<Layer, Problem> {
        let single = self.chain(x, block, &["branch3x3_1"])?;
        let double = self.chain(x, block, &["branch3x3dbl_1", "branch3x3dbl_2"])?;
        let branches = [
            self.chain(x, block, &["branch1x1"])?,
            self.chain(&single, block, &["branch3x3_2a"])?,
            self.chain(&single, block, &["branch3x3_2b"])?,
            self.chain(&double, block, &["branch3x3dbl_3a"])?,
            self.chain(&double, block, &["branch3x3dbl_3b"])?,
            self.pool(x, block, pool)?,
        ];
        Ok(self.concatenate(&branches))
    }
}
