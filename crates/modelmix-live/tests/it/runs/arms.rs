//! Arms in this process: clusters of features, and failures by a script with a bill of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use modelmix::internals::random::Random;
use modelmix_live::arm::{Arm, Content, Failure, FailureKind, Reply, Request};

/// Normal rows around a centre far from the others.
pub(super) struct Clusters {
    arm: usize,
    width: usize,
    delay: Duration,
}

impl Clusters {
    pub(super) fn new(arm: usize) -> Self {
        Self { arm, width: 4, delay: Duration::ZERO }
    }

    pub(super) fn slow(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    pub(super) fn of_width(self, width: usize) -> Self {
        Self { width, ..self }
    }
}

impl Arm for Clusters {
    fn reserve(&self, _request: &Request) -> f64 {
        0.0
    }

    fn call(&self, request: &Request) -> Result<Reply, Failure> {
        std::thread::sleep(self.delay);
        let mut random = Random::seeded(request.seed);
        let row = |_| {
            let centre = |column| if column == self.arm % self.width { 9.0 } else { 0.0 };
            Content::Features((0..self.width).map(|column| (centre(column) + 0.3 * random.normal()) as f32).collect())
        };
        Ok(Reply { samples: (0..request.count).map(row).map(Into::into).collect(), cost: 0.0 })
    }
}

/// What a server charged.
#[derive(Default)]
pub(super) struct Bill {
    keys: Mutex<BTreeMap<String, f64>>,
    /// Charges without keys.
    others: Mutex<f64>,
}

impl Bill {
    pub(super) fn total(&self) -> f64 {
        self.keys.lock().expect("no panics").values().sum::<f64>() + *self.others.lock().expect("no panics")
    }
}

type Script = Box<dyn Fn(&Request) -> Option<Failure> + Send + Sync>;

/// Clusters that fail by a script.
pub(super) struct Scripted {
    clusters: Clusters,
    script: Script,
    /// The most that a request costs, and the generator of prices.
    price: f64,
    seed: u64,
    calls: AtomicU64,
    bill: Arc<Bill>,
}

impl Scripted {
    pub(super) fn always(arm: usize, script: impl Fn(&Request) -> Option<Failure> + Send + Sync + 'static) -> Self {
        let script = Box::new(script);
        let (calls, bill) = (AtomicU64::new(0), Arc::default());
        Self { clusters: Clusters::new(arm), script, price: 0.0, seed: 0, calls, bill }
    }

    /// Random failures of all kinds at random prices; the server charges some of those without an answer.
    pub(super) fn failing(arm: usize, seed: u64) -> Self {
        Self { price: 0.03, seed: seed + 100 * arm as u64, ..Self::always(arm, |_| None) }
    }

    pub(super) fn bill(&self) -> Arc<Bill> {
        Arc::clone(&self.bill)
    }

    /// Charges a request once by its key.
    fn charge(&self, request: &Request, cost: f64) -> f64 {
        *self.bill.keys.lock().expect("no panics").entry(request.key.clone()).or_insert(cost)
    }
}

impl Arm for Scripted {
    fn reserve(&self, _request: &Request) -> f64 {
        self.price
    }

    fn call(&self, request: &Request) -> Result<Reply, Failure> {
        if let Some(failure) = (self.script)(request) {
            return Err(failure);
        }
        let mut reply = self.clusters.call(request)?;
        if self.price == 0.0 {
            return Ok(reply);
        }
        // A server that honours keys gives the same answer to the same key.
        if let Some(&cost) = self.bill.keys.lock().expect("no panics").get(&request.key) {
            return Ok(Reply { cost, ..reply });
        }
        let mut random = Random::stream(self.seed, self.calls.fetch_add(1, Ordering::Relaxed));
        let cost = self.price * random.unit();
        let fail = |kind| Failure::permanent(kind, "by the script");
        match random.below(10) {
            0 => Err(fail(FailureKind::NotSent).temporary()),
            1 => Err(Failure { status: Some(503), ..fail(FailureKind::Error).temporary() }),
            2 => Err(fail(FailureKind::Timeout).temporary().in_doubt()),
            3 => {
                // Charged, but the answer is lost.
                self.charge(request, cost);
                Err(fail(FailureKind::Broken).temporary().in_doubt())
            }
            4 => {
                *self.bill.others.lock().expect("no panics") += cost;
                Err(fail(FailureKind::Refusal).costing(cost))
            }
            _ => {
                reply.cost = self.charge(request, cost);
                Ok(reply)
            }
        }
    }
}
