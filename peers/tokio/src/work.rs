// SPDX-License-Identifier: Apache-2.0
//
// The trial `work` of tokio: what peers/cpp/work.hpp is for C and C++. Batches grow until one
// takes long enough, those before are the warm-up, of which there is one at least, and only
// the last is reported; a sum that is wrong ends everything. Its pieces are in spawn.rs, of
// tasks that are made for some work, and sync.rs, of tasks that hand over and wait.
use crate::{choice, fail, number, say, stay_on_all, VERSION};
use serde_json::{json, Value};
use std::future::Future;
use std::time::{Duration, Instant};

#[path = "spawn.rs"]
mod spawn;
#[path = "sync.rs"]
mod sync;

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

impl Outcome {
    fn check(&self, trial: &Trial) {
        if self.sum != self.expected {
            let what = format!("{} gave {} instead of {}", trial.work, self.sum, self.expected);
            fail("result", what)
        }
    }
}

/// Does batches with a growing n.
async fn grow<F: Future<Output = Outcome>>(trial: &Trial, batch: impl Fn(i64) -> F) -> Outcome {
    let (mut n, mut warm) = (1i64, false);
    loop {
        let outcome = batch(n).await;
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
async fn timed<F: Future<Output = (i64, i64, i64)>>(
    trial: &Trial,
    work: impl Fn(i64) -> F,
) -> Outcome {
    grow(trial, |n| {
        let doing = work(n);
        async move {
            let begin = Instant::now();
            let (sum, expected, operations) = doing.await;
            Outcome { time: begin.elapsed(), operations, sum, expected, ..Outcome::default() }
        }
    })
    .await
}

/// A little work that no compiler leaves out.
fn spend(rounds: u32) {
    for i in 0..rounds {
        std::hint::black_box(i);
    }
}

async fn piece(trial: &Trial) -> Option<Outcome> {
    Some(match trial.work.trim_end_matches("-main") {
        "yield" => sync::yielding(trial).await,
        "create" => spawn::create(trial).await,
        "batch" => spawn::batch(trial).await,
        "skynet" => spawn::skynet(trial).await,
        "fibonacci" => spawn::fibonacci(trial).await,
        "queens" => spawn::queens(trial).await,
        "increments" => spawn::increments(trial).await,
        "channel" => sync::channel(trial).await,
        "mutex" => sync::mutex(trial).await,
        "contended" => sync::contended(trial).await,
        "sleep" => sync::sleep(trial).await,
        "requests" => sync::requests(trial).await,
        "parked" => sync::parked(trial).await,
        _ => return None,
    })
}

fn runtime(workers: i64) -> tokio::runtime::Runtime {
    let mut builder = match workers {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    if workers > 1 {
        builder.worker_threads(workers as usize);
    }
    builder.enable_time().build().unwrap()
}

pub fn perform(json: &Value) {
    let trial = Trial {
        work: json["work"].as_str().unwrap_or_default().into(),
        threads: number(json, "threads", 1, 10_000_000),
        size: number(json, "size", 0, 100_000_000),
        workers: number(json, "workers", 1, 64),
        span: Duration::from_nanos(number(json, "span_ns", 1, 10_000_000_000) as u64),
    };
    choice(json, "tls", &["own", "shared"]);
    stay_on_all(json, 64);
    let outside = trial.work.ends_with("-main");
    let own = trial.clone();
    let done = runtime(trial.workers).block_on(async move {
        if outside {
            // block_on()'s own future is main's, and no task.
            return match own.work.as_str() {
                "create-main" | "batch-main" => piece(&own).await,
                _ => None,
            };
        }
        tokio::spawn(async move { piece(&own).await }).await.unwrap()
    });
    let mut sample = json!({"kind": "sample", "schema": 1, "model": "tokio", "version": VERSION,
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
