//! Rows in device memory, and sets of a call as rows on the device.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use half::f16;
use modelmix::compute::{HostRows, Resident, Set, Storage};
use modelmix::{Error, Features, Result, Rows};

use crate::device::{Argument, Buffer, Device, Grid, Pinned, Queue};
use crate::modules::Module;

/// The smallest capacity of a set, in rows.
const MIN_CAPACITY: usize = 64;

/// A resident set: values of single precision, or the bits of half precision.
#[derive(Debug)]
pub(crate) struct DeviceSet {
    device: Arc<Device>,
    width: usize,
    len: usize,
    values: Values,
}

#[derive(Debug)]
enum Values {
    Single(Buffer<f32>),
    Half(Buffer<u16>),
}

/// What a set of rows is called in errors.
fn named(rows: usize, width: usize) -> String {
    format!("a set of {rows} rows of width {width}")
}

impl DeviceSet {
    pub(crate) fn empty(device: &Arc<Device>, width: usize, storage: Storage) -> Result<Self> {
        let queue = device.begin()?;
        let values = match storage {
            Storage::Single => Values::Single(queue.allocate("a resident set", 0)?),
            Storage::Half => Values::Half(queue.allocate("a resident set", 0)?),
            other => return Err(device.problem(format!("it has no storage in {other:?} precision"))),
        };
        Ok(Self { device: Arc::clone(device), width, len: 0, values })
    }

    /// Rows of single precision.
    pub(crate) fn of(device: &Arc<Device>, rows: Rows<'_>) -> Result<Self> {
        let queue = device.begin()?;
        let buffer = queue.allocate(&named(rows.len(), rows.width()), rows.values().len())?;
        queue.send(&buffer, 0, rows.values())?;
        let (width, len) = (rows.width(), rows.len());
        Ok(Self { device: Arc::clone(device), width, len, values: Values::Single(buffer) })
    }

    /// Rows of the caller, in place.
    ///
    /// # Safety
    /// As [`Buffer::borrowed`], with `rows` × `width` values.
    pub(crate) unsafe fn borrowed(
        device: &Arc<Device>,
        (at, rows, width): (u64, usize, usize),
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Self {
        // SAFETY: the caller promises the same.
        let buffer = unsafe { Buffer::borrowed(device, at, rows * width, owner) };
        Self { device: Arc::clone(device), width, len: rows, values: Values::Single(buffer) }
    }

    /// The rows of features that are on this device already, shared with them; `None` if they are elsewhere.
    pub(crate) fn shared(device: &Arc<Device>, features: &Features) -> Option<Self> {
        let Set::Resident(resident) = Set::from(features) else { return None };
        let here: &Self = resident.as_any().downcast_ref()?;
        let Values::Single(buffer) = &here.values else { return None };
        let rows = (buffer.at, here.len, here.width);
        // SAFETY: the clone of the features keeps the rows, which do not change, and so their memory.
        here.is_on(device).then(|| unsafe { Self::borrowed(device, rows, Arc::new(features.clone())) })
    }

    /// Replaces memory of a caller by a copy that may change.
    fn own(&mut self) -> Result<()> {
        if let Values::Single(buffer) = &mut self.values
            && buffer.is_borrowed()
        {
            let queue = self.device.begin()?;
            let values = self.len * self.width;
            let copy = grown(&queue, &named(self.len, self.width), buffer, values, values)?;
            *buffer = copy;
        }
        Ok(())
    }

    /// The address of the rows, and whether they have half precision.
    pub(crate) fn raw(&self) -> (u64, bool) {
        match &self.values {
            Values::Single(buffer) => (buffer.at, false),
            Values::Half(buffer) => (buffer.at, true),
        }
    }

    pub(crate) fn is_on(&self, device: &Arc<Device>) -> bool {
        Arc::ptr_eq(&self.device, device)
    }

    /// The capacity for `rows` rows: half as much again as before, so that appending one by one copies little.
    fn capacity(&self, rows: usize) -> usize {
        rows.max(self.len + self.len / 2).max(MIN_CAPACITY) * self.width
    }
}

/// A buffer of `capacity` values, the first `len` of them those of an old one.
fn grown<T: crate::device::Plain>(
    queue: &Queue<'_>,
    what: &str,
    old: &Buffer<T>,
    len: usize,
    capacity: usize,
) -> Result<Buffer<T>> {
    let new = queue.allocate(what, capacity)?;
    queue.copy((old, 0), (&new, 0), len)?;
    Ok(new)
}

impl Resident for DeviceSet {
    fn len(&self) -> usize {
        self.len
    }

    fn width(&self) -> usize {
        self.width
    }

    fn storage(&self) -> Storage {
        match self.values {
            Values::Single(_) => Storage::Single,
            Values::Half(_) => Storage::Half,
        }
    }

    fn append(&mut self, rows: Rows<'_>) -> Result<()> {
        self.own()?;
        let (used, needed) = (self.len * self.width, (self.len + rows.len()) * self.width);
        let (capacity, what) = (self.capacity(self.len + rows.len()), named(self.len + rows.len(), self.width));
        let queue = self.device.begin()?;
        match &mut self.values {
            Values::Single(buffer) => {
                if needed > buffer.len {
                    *buffer = grown(&queue, &what, buffer, used, capacity)?;
                }
                queue.send(buffer, used, rows.values())?;
            }
            Values::Half(buffer) => {
                if needed > buffer.len {
                    *buffer = grown(&queue, &what, buffer, used, capacity)?;
                }
                let bits: Vec<u16> = rows.values().iter().map(|&value| f16::from_f32(value).to_bits()).collect();
                queue.send(buffer, used, &bits)?;
            }
        }
        self.len += rows.len();
        Ok(())
    }

    fn swap_remove(&mut self, row: usize) -> Result<()> {
        assert!(row < self.len, "there is no row {row} in a set of {}", self.len);
        self.own()?;
        let (last, width) = ((self.len - 1) * self.width, self.width);
        if row + 1 < self.len {
            let queue = self.device.begin()?;
            match &self.values {
                Values::Single(buffer) => queue.copy((buffer, last), (buffer, row * width), width)?,
                Values::Half(buffer) => queue.copy((buffer, last), (buffer, row * width), width)?,
            }
        }
        self.len -= 1;
        Ok(())
    }

    fn retain(&mut self, keep: &[bool]) -> Result<()> {
        let kept: Vec<u32> = (0..self.len as u32).filter(|&row| keep[row as usize]).collect();
        let (rows, width) = (kept.len(), self.width);
        if rows == self.len {
            return Ok(());
        }
        let queue = self.device.begin()?;
        let index = queue.upload("rows that are kept", &kept)?;
        let gather = |from: u64, to: u64, units: usize| {
            let grid = Grid::new(rows, 128);
            // SAFETY: the new buffer has a place for all rows that are kept, and every index is one of a row.
            unsafe { queue.launch(Module::Rows, "gather", grid, &[&from, &index.at, &(units as i32), &to]) }
        };
        match &mut self.values {
            Values::Single(buffer) => {
                let new = queue.allocate::<f32>(&named(rows, width), rows * width)?;
                gather(buffer.at, new.at, 2 * width)?;
                queue.wait()?;
                *buffer = new;
            }
            Values::Half(buffer) => {
                let new = queue.allocate::<u16>(&named(rows, width), rows * width)?;
                gather(buffer.at, new.at, width)?;
                queue.wait()?;
                *buffer = new;
            }
        }
        self.len = rows;
        Ok(())
    }

    fn read(&self, rows: Range<usize>) -> Result<Vec<f32>> {
        assert!(rows.start <= rows.end && rows.end <= self.len, "rows {rows:?} of a set of {}", self.len);
        let (first, len) = (rows.start * self.width, rows.len() * self.width);
        let queue = self.device.begin()?;
        match &self.values {
            Values::Single(buffer) => {
                let mut values = reserved(len)?;
                queue.read(buffer, first, &mut values)?;
                Ok(values)
            }
            Values::Half(buffer) => {
                let mut bits = reserved(len)?;
                queue.read(buffer, first, &mut bits)?;
                Ok(bits.into_iter().map(|bits: u16| f16::from_bits(bits).to_f32()).collect())
            }
        }
    }

    fn duplicate(&self) -> Result<Box<dyn Resident>> {
        let queue = self.device.begin()?;
        let (len, what) = (self.len * self.width, named(self.len, self.width));
        let values = match &self.values {
            Values::Single(buffer) => Values::Single(grown(&queue, &what, buffer, len, len)?),
            Values::Half(buffer) => Values::Half(grown(&queue, &what, buffer, len, len)?),
        };
        Ok(Box::new(Self { device: Arc::clone(&self.device), width: self.width, len: self.len, values }))
    }

    fn first_not_finite(&self) -> Result<Option<usize>> {
        let Values::Single(buffer) = &self.values else {
            // Values of half precision come from rows that were checked.
            return Ok(None);
        };
        let queue = self.device.begin()?;
        let first = queue.upload("the first row that is not finite", &[u64::MAX])?;
        let (count, width) = ((self.len * self.width) as i64, self.width as i32);
        let grid = Grid::new((self.len * self.width).div_ceil(256).min(16 * self.device.multiprocessors as usize), 256);
        // SAFETY: the buffer has `count` values.
        unsafe { queue.launch(Module::Rows, "not_finite", grid, &[&buffer.at, &count, &width, &first.at])? };
        Ok(queue.values(&first)?.first().filter(|&&row| row != u64::MAX).map(|&row| row as usize))
    }

    fn host(&self) -> Option<HostRows<'_>> {
        None
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Zeros; an error instead of an abort if there is no memory.
fn reserved<T: Default + Clone>(len: usize) -> Result<Vec<T>> {
    let mut values = Vec::new();
    values.try_reserve_exact(len).map_err(|_| Error::Memory {
        what: format!("an array of {len} values"),
        place: "host memory".into(),
        needed: (len as u64).saturating_mul(size_of::<T>() as u64),
        free: None,
    })?;
    values.resize(len, T::default());
    Ok(values)
}

/// Memory for rows of a call.
enum Own {
    Device(Buffer<f32>),
    /// Memory of the host that the device reads, if its own is short.
    Host(Pinned<f32>),
}

impl Own {
    fn at(&self) -> u64 {
        match self {
            Own::Device(buffer) => buffer.at,
            Own::Host(pinned) => pinned.address(),
        }
    }
}

/// The rows of a [`Set`] for the device, in single precision: resident ones in place, others for the call.
pub(crate) struct Loaded {
    /// The address of the first row.
    pub(crate) base: u64,
    pub(crate) rows: usize,
    pub(crate) width: usize,
    own: Option<Own>,
}

/// A set that may have to be read from another engine before a call begins: [`Resident::read`] of a set of this engine
/// would wait for the call itself.
pub(crate) enum Source<'a> {
    Here(&'a DeviceSet),
    Host(modelmix::compute::SingleRows<'a>),
}

impl<'a> Source<'a> {
    pub(crate) fn new(device: &Arc<Device>, set: Set<'a>) -> Result<Self> {
        if let Set::Resident(resident) = set
            && let Some(here) = resident.as_any().downcast_ref::<DeviceSet>()
            && here.is_on(device)
        {
            return Ok(Source::Here(here));
        }
        Ok(Source::Host(set.rows()?))
    }

    /// The rows of several sets on the device.
    pub(crate) fn load_all(queue: &Queue<'_>, sources: &[Self]) -> Result<Vec<Loaded>> {
        let loaded = sources.iter().map(|source| source.place(queue)).collect::<Result<Vec<_>>>()?;
        let sent = sources.iter().zip(&loaded).filter_map(|(source, loaded)| match (source, &loaded.own) {
            (Source::Host(rows), Some(Own::Device(own))) => Some((own, 0, rows.view().values())),
            _ => None,
        });
        queue.send_all(&sent.collect::<Vec<_>>())?;
        Ok(loaded)
    }

    /// The rows in memory of the host that the device reads, unless they are resident: for sets that do not fit.
    pub(crate) fn load_on_host(&self, queue: &Queue<'_>) -> Result<Loaded> {
        match self {
            Source::Here(DeviceSet { values: Values::Single(buffer), len, width, .. }) => {
                Ok(Loaded::at(buffer.at, *len, *width))
            }
            Source::Here(DeviceSet { values: Values::Half(buffer), len, width, .. }) => {
                let loaded = Loaded::on_host(queue, *len, *width)?;
                widen(queue, buffer.at, len * width, loaded.base)?;
                Ok(loaded)
            }
            Source::Host(rows) => {
                let rows = rows.view();
                let mut pinned = Pinned::new(queue.device, rows.values().len())?;
                pinned.values_mut().copy_from_slice(rows.values());
                Ok(Loaded::of(Own::Host(pinned), rows.len(), rows.width()))
            }
        }
    }

    /// The rows on the device.
    pub(crate) fn load(&self, queue: &Queue<'_>) -> Result<Loaded> {
        let loaded = self.place(queue)?;
        if let (Source::Host(rows), Some(Own::Device(own))) = (self, &loaded.own) {
            queue.send(own, 0, rows.view().values())?;
        }
        Ok(loaded)
    }

    pub(crate) fn rows(&self) -> usize {
        match self {
            Source::Here(set) => set.len,
            Source::Host(rows) => rows.view().len(),
        }
    }

    pub(crate) fn width(&self) -> usize {
        match self {
            Source::Here(set) => set.width,
            Source::Host(rows) => rows.view().width(),
        }
    }

    /// Some of the rows on the device: in place if they are resident in single precision.
    pub(crate) fn piece(&self, queue: &Queue<'_>, rows: Range<usize>) -> Result<Loaded> {
        let (count, width) = (rows.len(), self.width());
        let own = match self {
            Source::Here(DeviceSet { values: Values::Single(buffer), .. }) => {
                return Ok(Loaded::at(buffer.at + (rows.start * width * size_of::<f32>()) as u64, count, width));
            }
            Source::Host(host) => {
                let own = queue.allocate(&named(count, width), count * width)?;
                queue.send(&own, 0, host.view().slice(rows.start, rows.end).values())?;
                own
            }
            Source::Here(DeviceSet { values: Values::Half(buffer), .. }) => {
                widened(queue, buffer.at + (rows.start * width * size_of::<u16>()) as u64, count, width)?
            }
        };
        Ok(Loaded::of(Own::Device(own), count, width))
    }

    /// A place for the rows on the device, which has all but those of the host.
    fn place(&self, queue: &Queue<'_>) -> Result<Loaded> {
        match self {
            Source::Host(rows) => {
                let rows = rows.view();
                let own = queue.allocate(&named(rows.len(), rows.width()), rows.values().len())?;
                Ok(Loaded::of(Own::Device(own), rows.len(), rows.width()))
            }
            Source::Here(set) => match &set.values {
                Values::Single(buffer) => Ok(Loaded { base: buffer.at, rows: set.len, width: set.width, own: None }),
                Values::Half(buffer) => {
                    let own = widened(queue, buffer.at, set.len, set.width)?;
                    Ok(Loaded::of(Own::Device(own), set.len, set.width))
                }
            },
        }
    }
}

/// Rows of half precision at an address, in single precision.
fn widened(queue: &Queue<'_>, at: u64, rows: usize, width: usize) -> Result<Buffer<f32>> {
    let own = queue.allocate::<f32>(&named(rows, width), rows * width)?;
    widen(queue, at, rows * width, own.at)?;
    Ok(own)
}

/// Writes values of half precision to an address in single precision.
fn widen(queue: &Queue<'_>, at: u64, count: usize, to: u64) -> Result<()> {
    let (count, grid) = (count as i64, Grid::new(8 * queue.device.multiprocessors as usize, 256));
    // SAFETY: the caller has `count` values at the first address, and room for as many at the second.
    unsafe { queue.launch(Module::Rows, "widen_all", grid, &[&at, &count, &to]) }
}

impl Loaded {
    fn of(own: Own, rows: usize, width: usize) -> Self {
        Self { base: own.at(), rows, width, own: Some(own) }
    }

    /// Memory for rows on the device.
    pub(crate) fn on_device(queue: &Queue<'_>, rows: usize, width: usize) -> Result<Self> {
        Ok(Self::of(Own::Device(queue.allocate(&named(rows, width), rows * width)?), rows, width))
    }

    /// Memory for rows on the host, which the device reads and writes.
    pub(crate) fn on_host(queue: &Queue<'_>, rows: usize, width: usize) -> Result<Self> {
        Ok(Self::of(Own::Host(Pinned::new(queue.device, rows * width)?), rows, width))
    }

    /// Rows at an address, which the caller keeps.
    pub(crate) fn at(base: u64, rows: usize, width: usize) -> Self {
        Self { base, rows, width, own: None }
    }

    /// The address of a row.
    pub(crate) fn row(&self, row: usize) -> u64 {
        self.base + (row * self.width * size_of::<f32>()) as u64
    }
}

/// `Sets` of `rows.cu`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sets {
    base: [u64; Self::MOST],
    end: [i32; Self::MOST],
}

// SAFETY: `repr(C)` with the fields of the struct in `rows.cu`.
unsafe impl Argument for Sets {}

impl Sets {
    const MOST: usize = 16;
}

/// Addresses of the rows of sets of one width, one set after the other, on the device; 0 from there to `padded`.
pub(crate) fn addresses(queue: &Queue<'_>, sets: &[&Loaded], padded: usize) -> Result<Buffer<u64>> {
    let total = sets.iter().map(|set| set.rows).sum::<usize>().max(padded);
    let at = queue.allocate::<u64>("addresses of rows", total)?;
    let bytes = (sets.first().map_or(0, |set| set.width) * size_of::<f32>()) as i64;
    let mut first = 0;
    for (index, some) in sets.chunks(Sets::MOST).enumerate() {
        let (mut argument, mut end) = (Sets::default(), 0);
        for (place, set) in some.iter().enumerate() {
            end += set.rows;
            (argument.base[place], argument.end[place]) = (set.base, end as i32);
        }
        let is_last = (index + 1) * Sets::MOST >= sets.len();
        let rows = if is_last { total - first } else { end };
        let to = at.at + (first * size_of::<u64>()) as u64;
        let grid = Grid::new(rows.div_ceil(256), 256);
        // SAFETY: the buffer has an address for every row of all sets and for padding.
        unsafe {
            let count = some.len() as i32;
            queue.launch(Module::Rows, "addresses", grid, &[&argument, &count, &bytes, &(rows as i32), &to])?;
        }
        first += end;
    }
    Ok(at)
}
