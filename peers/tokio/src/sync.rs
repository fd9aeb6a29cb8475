// SPDX-License-Identifier: Apache-2.0
//
// Tasks that give up their turn, pass something to one another, lock, sleep and wait, as
// {yield,pass,lock,late,park}.hpp of peers/cpp. tokio has no condition variable.
use super::{grow, spend, timed, Outcome, Trial};
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::{mpsc, oneshot, Mutex};
use tokio::task::yield_now;

#[derive(Default)]
struct Yielding {
    there: AtomicI64,
    done: AtomicI64,
    sum: AtomicI64,
    begin: OnceLock<Instant>,
    end: OnceLock<Instant>,
}

pub async fn yielding(trial: &Trial) -> Outcome {
    let threads = trial.threads;
    grow(trial, |n| async move {
        let all = Arc::new(Yielding::default());
        let task = |all: Arc<Yielding>| async move {
            if all.there.fetch_add(1, SeqCst) + 1 == threads {
                all.begin.set(Instant::now()).unwrap();
            }
            while all.there.load(SeqCst) < threads {
                yield_now().await;
            }
            let mut did = 0;
            while did < n {
                yield_now().await;
                did += 1;
            }
            all.sum.fetch_add(did, SeqCst);
            if all.done.fetch_add(1, SeqCst) + 1 == threads {
                all.end.set(Instant::now()).unwrap();
            }
        };
        let tasks: Vec<_> = (0..threads).map(|_| tokio::spawn(task(all.clone()))).collect();
        for one in tasks {
            one.await.unwrap();
        }
        Outcome {
            time: *all.end.get().unwrap() - *all.begin.get().unwrap(),
            operations: threads * n,
            sum: all.sum.load(SeqCst),
            expected: threads * n,
            ..Outcome::default()
        }
    })
    .await
}

/// Through channels with room for one, the least there is.
pub async fn channel(trial: &Trial) -> Outcome {
    let pairs = (trial.threads / 2).max(1);
    timed(trial, |n| async move {
        let mut tasks = Vec::new();
        for _ in 0..pairs {
            let (there, mut at_other) = mpsc::channel::<i64>(1);
            let (back, mut here) = mpsc::channel::<i64>(1);
            tokio::spawn(async move {
                while let Some(value) = at_other.recv().await {
                    back.send(value + 1).await.unwrap();
                }
            });
            tasks.push(tokio::spawn(async move {
                let mut sum = 0;
                for i in 0..n {
                    there.send(i).await.unwrap();
                    sum += here.recv().await.unwrap();
                }
                sum
            }));
        }
        let mut sum = 0;
        for one in tasks {
            sum += one.await.unwrap();
        }
        (sum, pairs * (n * (n + 1) / 2), n * pairs)
    })
    .await
}

const INSIDE: u32 = 50;
const OUTSIDE: u32 = 50;

pub async fn mutex(trial: &Trial) -> Outcome {
    timed(trial, |n| async move {
        let lock = Mutex::new(0i64);
        for _ in 0..n {
            *lock.lock().await += 1;
        }
        (lock.into_inner(), n, n)
    })
    .await
}

pub async fn contended(trial: &Trial) -> Outcome {
    let threads = trial.threads;
    timed(trial, |n| async move {
        let lock = Arc::new(Mutex::new(0i64));
        let locker = |lock: Arc<Mutex<i64>>| async move {
            for _ in 0..n {
                let mut sum = lock.lock().await;
                *sum += 1;
                spend(INSIDE);
                drop(sum);
                spend(OUTSIDE);
            }
        };
        let tasks: Vec<_> = (0..threads).map(|_| tokio::spawn(locker(lock.clone()))).collect();
        for one in tasks {
            one.await.unwrap();
        }
        let sum = *lock.lock().await;
        (sum, n * threads, n * threads)
    })
    .await
}

// ---- how late ----

const SLEEP_LEAST: i64 = 100_000;
const SLEEP_MOST: i64 = 10_000_000;
const REQUEST_APART: i64 = 1_000_000;
const REQUEST_WORK: u32 = 2_000;
const REQUESTERS: i64 = 4;

async fn sleeping(until: Instant, mut state: i64) -> Vec<i64> {
    let mut late = Vec::new();
    let mut moment = Instant::now();
    // Once at least: who starts late has been late.
    while late.is_empty() || moment < until {
        let mut apart = REQUEST_APART;
        if state != 0 {
            state = state * 48271 % 2147483647;
            apart = SLEEP_LEAST + state % (SLEEP_MOST - SLEEP_LEAST);
        } else {
            spend(REQUEST_WORK);
        }
        moment += Duration::from_nanos(apart as u64);
        tokio::time::sleep_until(moment.into()).await;
        late.push(moment.elapsed().as_nanos() as i64);
    }
    late
}

async fn sleepers(trial: &Trial, count: i64, hogs: i64) -> Outcome {
    let begin = Instant::now();
    let until = begin + Duration::from_millis(trial.size as u64);
    let mut state = 1i64;
    let mut tasks = Vec::new();
    for _ in 0..count {
        state = state * 16807 % 2147483647;
        tasks.push(tokio::spawn(sleeping(until, if hogs > 0 { 0 } else { state })));
    }
    let hog = || async move {
        while Instant::now() < until {
            spend(1000);
        }
    };
    let hogs: Vec<_> = (0..hogs).map(|_| tokio::spawn(hog())).collect();
    let mut outcome = Outcome { expected: count, ..Outcome::default() };
    for one in tasks {
        let late = one.await.unwrap();
        outcome.sum += i64::from(!late.is_empty());
        outcome.late.extend(late);
    }
    for one in hogs {
        one.await.unwrap();
    }
    outcome.time = begin.elapsed();
    outcome.operations = outcome.late.len() as i64;
    outcome.check(trial);
    outcome
}

pub async fn sleep(trial: &Trial) -> Outcome {
    sleepers(trial, trial.threads, 0).await
}

/// Who computes does so on a worker, as a program would that knows no better.
pub async fn requests(trial: &Trial) -> Outcome {
    sleepers(trial, REQUESTERS, trial.threads * trial.workers).await
}

// ---- parked ----

/// Bytes that are resident, and of page tables.
fn memory() -> i64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let kb = |line: &str| line.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    text.lines()
        .filter(|line| line.starts_with("VmRSS:") || line.starts_with("VmPTE:"))
        .map(|line| kb(line).unwrap_or(0i64) * 1024)
        .sum()
}

pub async fn parked(trial: &Trial) -> Outcome {
    let there = Arc::new(AtomicI64::new(0));
    let (before, begin) = (memory(), Instant::now());
    let mut doors = Vec::with_capacity(trial.threads as usize);
    let mut tasks = Vec::with_capacity(trial.threads as usize);
    for _ in 0..trial.threads {
        let (open, door) = oneshot::channel::<i64>();
        let there = there.clone();
        doors.push(open);
        tasks.push(tokio::spawn(async move {
            there.fetch_add(1, SeqCst);
            door.await.unwrap()
        }));
    }
    while there.load(SeqCst) < trial.threads {
        yield_now().await;
    }
    let mut outcome = Outcome {
        time: begin.elapsed(),
        operations: trial.threads,
        expected: trial.threads,
        bytes: Some((memory() - before) as f64 / trial.threads as f64),
        ..Outcome::default()
    };
    for open in doors {
        open.send(1).unwrap();
    }
    for one in tasks {
        outcome.sum += one.await.unwrap();
    }
    outcome.check(trial);
    outcome
}
