// SPDX-License-Identifier: Apache-2.0
//
// The peer of may, stackful coroutines in Rust: a probe by the same protocol that knows the
// trial `work`, as peers/cpp/work.hpp has it. Batches grow until one takes long enough, those
// before are the warm-up, of which there is one at least, and only the last is reported; a sum
// that is wrong ends everything. Its pieces are in spawn.rs, of coroutines that are made for
// some work, and sync.rs, of coroutines that hand over and wait.
mod spawn;
mod sync;

use may::go;
use serde_json::{json, Value};
use std::io::Read;
use std::process::exit;
use std::time::{Duration, Instant};

const VERSION: &str = "may 0.3.51";

#[derive(Clone)]
pub struct Trial {
    pub work: String,
    pub threads: i64,
    pub size: i64,
    pub workers: i64,
    span: Duration,
}

#[derive(Default)]
pub struct Outcome {
    pub time: Duration,
    pub operations: i64,
    pub sum: i64,
    pub expected: i64,
    pub bytes: Option<f64>, // of memory, each
    pub late: Vec<i64>,     // ns, each time somebody was to run
}

fn say(record: Value) {
    println!("{record}");
}

fn fail(place: &str, what: String) -> ! {
    say(json!({"kind": "error", "schema": 1, "errno": 22, "where": place, "what": what}));
    exit(2)
}

fn number(trial: &Value, field: &str, low: i64, high: i64) -> i64 {
    match trial[field].as_i64() {
        Some(n) if (low..=high).contains(&n) => n,
        _ => fail(field, format!("{field} is not a number from {low} to {high}")),
    }
}

fn choice(trial: &Value, field: &str, known: &[&str]) {
    if !trial[field].as_str().is_some_and(|word| known.contains(&word)) {
        fail(field, format!("unknown {field}; one of {}", known.join(", ")))
    }
}

/// This process runs on the trial's CPUs from now on.
fn stay_on(trial: &Value) {
    let named: Option<Vec<i64>> =
        trial["cpus"].as_array().and_then(|list| list.iter().map(Value::as_i64).collect());
    let cpus = match named {
        Some(cpus) if (1..=64).contains(&cpus.len()) => cpus,
        _ => fail("cpus", "cpus must name 1 to 64 CPUs".into()),
    };
    if cpus.iter().any(|cpu| !(0..1024).contains(cpu)) {
        fail("cpus", "cpus are numbers of CPUs".into());
    }
    // SAFETY: a set of bits, and a call that reads it.
    let stays = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        cpus.iter().for_each(|&cpu| libc::CPU_SET(cpu as usize, &mut set));
        libc::sched_setaffinity(0, std::mem::size_of_val(&set), &set) == 0
    };
    if !stays {
        fail("cpus", "those CPUs are not to be had".into());
    }
}

impl Outcome {
    pub fn check(&self, trial: &Trial) {
        if self.sum != self.expected {
            let what = format!("{} gave {} instead of {}", trial.work, self.sum, self.expected);
            fail("result", what)
        }
    }
}

/// Does batches with a growing n.
pub fn grow(trial: &Trial, batch: impl Fn(i64) -> Outcome) -> Outcome {
    let (mut n, mut warm) = (1i64, false);
    loop {
        let outcome = batch(n);
        outcome.check(trial);
        if warm && outcome.time >= trial.span {
            return outcome;
        }
        warm = true;
        let took = outcome.time.as_nanos().max(1) as f64;
        let factor = 1.3 * trial.span.as_nanos() as f64 / took;
        if factor > 1.0 {
            n = (n as f64 * factor.min(16.0)) as i64 + 1;
        }
    }
}

/// The same for work whose time is that of the call, which gives a sum, the right one, and how
/// many operations there were.
pub fn timed(trial: &Trial, work: impl Fn(i64) -> (i64, i64, i64)) -> Outcome {
    grow(trial, |n| {
        let begin = Instant::now();
        let (sum, expected, operations) = work(n);
        Outcome { time: begin.elapsed(), operations, sum, expected, ..Outcome::default() }
    })
}

/// A little work that no compiler leaves out.
pub fn spend(rounds: u32) {
    for i in 0..rounds {
        std::hint::black_box(i);
    }
}

fn piece(trial: &Trial) -> Option<Outcome> {
    Some(match trial.work.as_str() {
        "yield" => sync::yielding(trial),
        "create" | "create-main" => spawn::create(trial),
        "batch" | "batch-main" => spawn::batch(trial),
        "skynet" => spawn::skynet(trial),
        "fibonacci" => spawn::fibonacci(trial),
        "queens" => spawn::queens(trial),
        "increments" => spawn::increments(trial),
        "channel" => sync::channel(trial),
        "condition" => sync::condition(trial),
        "mutex" => sync::mutex(trial),
        "contended" => sync::contended(trial),
        "sleep" => sync::sleep(trial),
        "requests" => sync::requests(trial),
        "parked" => sync::parked(trial),
        _ => return None,
    })
}

fn tell(trial: &Trial, done: Option<Outcome>) {
    let mut sample = json!({"kind": "sample", "schema": 1, "model": "may", "version": VERSION,
        "built": "cargo build --release, lto"});
    match done {
        None => {
            let name: String = trial.work.chars().take(60).collect();
            sample["wall_ns"] = json!(1);
            sample["unmeasured"] = json!(format!("it has no {name}"));
        }
        Some(mut outcome) => {
            sample["wall_ns"] = json!(outcome.time.as_nanos().max(1) as u64);
            sample["operations"] = json!(outcome.operations);
            sample["counter"] = json!(outcome.sum);
            sample["expected"] = json!(outcome.expected);
            if let Some(bytes) = outcome.bytes {
                sample["bytes"] = json!(bytes);
            }
            if !outcome.late.is_empty() {
                outcome.late.sort_unstable();
                let at = |share: f64| {
                    let rank = (share * outcome.late.len() as f64).ceil() as usize;
                    json!(outcome.late[rank.max(1) - 1])
                };
                sample["late_p50_ns"] = at(0.5);
                sample["late_p99_ns"] = at(0.99);
                sample["late_max_ns"] = at(1.0);
            }
        }
    }
    say(sample);
    say(json!({"kind": "end", "schema": 1, "samples": 1}));
}

fn main() {
    let mut text = String::new();
    say(json!({"kind": "hello", "schema": 1, "probe": "swtch-probe-may",
        "version": VERSION, "pid": std::process::id()}));
    if std::io::stdin().take(1 << 20).read_to_string(&mut text).is_err() {
        fail("trial", "the trial cannot be read".into());
    }
    let json: Value = match serde_json::from_str(&text) {
        Ok(value) => value,
        Err(error) => fail("trial", format!("the trial is not JSON: {error}")),
    };
    number(&json, "schema", 1, 1);
    choice(&json, "probe", &["work"]);
    choice(&json, "model", &["may"]);
    choice(&json, "policy", &["other"]);
    let trial = Trial {
        work: json["work"].as_str().unwrap_or_default().into(),
        threads: number(&json, "threads", 1, 10_000_000),
        size: number(&json, "size", 0, 100_000_000),
        workers: number(&json, "workers", 1, 64),
        span: Duration::from_nanos(number(&json, "span_ns", 1, 10_000_000_000) as u64),
    };
    choice(&json, "tls", &["own", "shared"]);
    stay_on(&json);
    may::config().set_workers(trial.workers as usize).set_worker_pin(trial.workers == 1);
    let done = if trial.work.ends_with("-main") {
        piece(&trial) // main is none of its coroutines
    } else {
        let own = trial.clone();
        go!(move || piece(&own)).join().unwrap()
    };
    tell(&trial, done);
    exit(0) // its workers never end
}
