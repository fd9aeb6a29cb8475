// SPDX-License-Identifier: Apache-2.0
//
// The tokio peer: a probe by the same protocol that knows the trials `ring` and, in
// work.rs, `work` and, in echo.rs, `io-server`, the server of `io-echo`. In a ring two
// tasks of a runtime with one thread hand over to one another, by yielding or
// through a channel with room for one. As in probes/switching/ring.c a batch of laps is
// timed as a whole and the first is warm-up.
mod echo;
mod work;

use serde_json::{json, Value};
use std::io::Read;
use std::process::exit;
use std::time::Instant;
use tokio::sync::mpsc;
use tokio::task::{spawn, yield_now};

const VERSION: &str = "tokio 1.48.0";

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

fn choice<'a>(trial: &'a Value, field: &str, known: &[&str]) -> &'a str {
    match trial[field].as_str() {
        Some(word) if known.contains(&word) => word,
        _ => fail(field, format!("unknown {field}; one of {}", known.join(", "))),
    }
}

/// This process runs on the trial's CPUs from now on; there may be so many.
fn stay_on_all(trial: &Value, most: usize) {
    let named: Option<Vec<i64>> =
        trial["cpus"].as_array().and_then(|list| list.iter().map(Value::as_i64).collect());
    let cpus = match named {
        Some(cpus) if (1..=most).contains(&cpus.len()) => cpus,
        _ => fail("cpus", format!("cpus must name 1 to {most} CPUs")),
    };
    if cpus.iter().any(|cpu| !(0..1024).contains(cpu)) {
        fail("cpus", "cpus are numbers of CPUs".into());
    }
    echo::stay_on(&cpus);
}

struct Clock {
    begin: Instant,
    took: Vec<u64>,
}

impl Clock {
    fn stamp(&mut self, batch: i64) {
        let now = Instant::now();
        if batch > 0 {
            self.took.push((now - self.begin).as_nanos() as u64);
        }
        self.begin = now;
    }
}

async fn by_yield(batches: i64, laps: i64, clock: &mut Clock) {
    let other = spawn(async move {
        for _ in 0..(batches + 1) * laps {
            yield_now().await;
        }
    });
    for batch in 0..=batches {
        for _ in 0..laps {
            yield_now().await;
        }
        clock.stamp(batch);
    }
    other.await.unwrap();
}

async fn by_channel(batches: i64, laps: i64, clock: &mut Clock) {
    let (there, mut at_other) = mpsc::channel::<u32>(1);
    let (back, mut here) = mpsc::channel::<u32>(1);
    let other = spawn(async move {
        while let Some(token) = at_other.recv().await {
            back.send(token).await.unwrap();
        }
    });
    for batch in 0..=batches {
        for _ in 0..laps {
            there.send(1).await.unwrap();
            here.recv().await.unwrap();
        }
        clock.stamp(batch);
    }
    drop(there);
    other.await.unwrap();
}

fn main() {
    let mut text = String::new();
    say(json!({"kind": "hello", "schema": 1, "probe": "swtch-probe-tokio",
        "version": VERSION, "pid": std::process::id()}));
    if std::io::stdin().take(1 << 20).read_to_string(&mut text).is_err() {
        fail("trial", "the trial cannot be read".into());
    }
    let trial: Value = match serde_json::from_str(&text) {
        Ok(value) => value,
        Err(error) => fail("trial", format!("the trial is not JSON: {error}")),
    };
    number(&trial, "schema", 1, 1);
    let probe = choice(&trial, "probe", &["ring", "io-server", "work"]);
    choice(&trial, "model", &["tokio"]);
    choice(&trial, "policy", &["other"]);
    if probe == "io-server" {
        return echo::serve(&trial);
    }
    if probe == "work" {
        return work::perform(&trial);
    }
    let by = choice(&trial, "by", &["yield", "channel"]);
    number(&trial, "members", 2, 2);
    let batches = number(&trial, "batches", 1, 100_000);
    let laps = number(&trial, "laps", 1, 10_000_000);
    stay_on_all(&trial, 1);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let mut clock = Clock { begin: Instant::now(), took: Vec::with_capacity(batches as usize) };
    // Both are tasks: block_on()'s own future is looked at in another way.
    let mut clock = runtime.block_on(async move {
        let channel = by == "channel";
        spawn(async move {
            if channel {
                by_channel(batches, laps, &mut clock).await;
            } else {
                by_yield(batches, laps, &mut clock).await;
            }
            clock
        })
        .await
        .unwrap()
    });
    let wall: u64 = clock.took.iter().sum();
    clock.took.sort_unstable();
    let each = |share: f64| {
        let rank = (share * clock.took.len() as f64).ceil() as usize;
        clock.took[rank.max(1) - 1] as f64 / (2 * laps) as f64
    };
    say(json!({"kind": "sample", "schema": 1, "model": "tokio", "wall_ns": wall,
        "passes": 2 * laps * (batches + 1), "each_p10_ns": each(0.1), "each_p50_ns": each(0.5),
        "each_p90_ns": each(0.9), "each_p99_ns": each(0.99), "version": VERSION}));
    say(json!({"kind": "end", "schema": 1, "samples": 1}));
}
