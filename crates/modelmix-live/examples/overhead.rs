//! What a run costs besides its models: processor time per pull with arms that answer at once, 64 pulls in flight, SQLite included, and
//! the time to resume. `cargo run --release --package modelmix-live --example overhead [PULLS]`

use std::path::Path;
use std::time::Instant;

use modelmix::compute::Engine;
use modelmix::internals::random::Random;
use modelmix_live::arm::{Arm, Content, Failure, Reply, Request};
use modelmix_live::config::{Config, Plan};
use modelmix_live::runner::{Controls, RunSettings, Unobserved, run};
use modelmix_live::store::Store;
use modelmix_live::{Result, status};

/// Normal rows of width 64 around a centre.
struct Instant64(usize);

impl Arm for Instant64 {
    fn reserve(&self, _request: &Request) -> f64 {
        0.0
    }

    fn call(&self, request: &Request) -> Result<Reply, Failure> {
        let mut random = Random::seeded(request.seed);
        let row = (0..64).map(|column| (random.normal() + if column == self.0 { 6.0 } else { 0.0 }) as f32).collect();
        Ok(Reply { samples: vec![Content::Features(row).into()], cost: 0.0 })
    }
}

fn plan(pulls: u64) -> Result<Plan> {
    let arm = |name: &str| format!("[[arm]]\nname = \"{name}\"\nkind = \"command\"\ncommand = [\"none\"]\n");
    let head = format!("objective = \"rke\"\nbandwidth = 8.0\nmax_in_flight = 64\nbudget = {{ pulls = {pulls} }}\n");
    let config = Config::parse(&(head + &arm("a") + &arm("b") + &arm("c")), "overhead.toml")?;
    let mut plan = Plan::new(config, Path::new("."), &Engine::default(), &|_| None)?;
    for (at, arm) in plan.arms.iter_mut().enumerate() {
        arm.arm = Box::new(Instant64(at));
    }
    Ok(plan)
}

/// The processor time of this process in seconds, as Linux counts it, in hundredths.
fn processor_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<f64> = stat
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .map(|field| field.parse().unwrap_or(0.0))
        .collect();
    fields.get(11).zip(fields.get(12)).map_or(f64::NAN, |(user, system)| (user + system) / 100.0)
}

fn main() -> Result<()> {
    let pulls: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(10_000);
    let folder = std::env::temp_dir().join(format!("modelmix-overhead-{}", std::process::id()));
    let (plan, settings, controls) = (plan(pulls)?, RunSettings::default(), Controls::default());
    let (start, before) = (Instant::now(), processor_seconds());
    run(&plan, Store::create(&folder, &plan.description())?, &settings, &controls, &mut Unobserved)?;
    let (wall, processor) = (start.elapsed().as_secs_f64(), processor_seconds() - before);
    let start = Instant::now();
    run(&plan, Store::open(&folder)?, &settings, &controls, &mut Unobserved)?;
    let resumed = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let samples = status::read(&folder, &Engine::default())?.samples;
    let status = start.elapsed().as_secs_f64();
    let each = 1e3 / pulls as f64;
    println!(
        "{samples} pulls: {:.3} ms of processor time and {:.3} ms of time per pull; resumed in {resumed:.2} s; status in {status:.2} s",
        processor * each,
        wall * each
    );
    let _ = std::fs::remove_dir_all(folder);
    Ok(())
}
