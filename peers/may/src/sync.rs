// SPDX-License-Identifier: Apache-2.0
//
// Coroutines that give up their turn, pass something to one another, lock, sleep and wait, as
// {yield,pass,lock,late,park}.hpp of peers/cpp. Its channels have room for any number.
use super::{grow, spend, timed, Outcome, Trial};
use may::coroutine::{self, yield_now};
use may::go;
use may::sync::{mpsc, Barrier, Condvar, Mutex};
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

struct Yielding {
    ready: Barrier,
    done: AtomicI64,
    sum: AtomicI64,
    begin: OnceLock<Instant>,
    end: OnceLock<Instant>,
}

fn yielder(all: &Yielding, threads: i64, n: i64) {
    // Not by yielding: while one does, those that were spawned need not begin.
    if all.ready.wait().is_leader() {
        all.begin.set(Instant::now()).unwrap();
    }
    let mut did = 0;
    while did < n {
        yield_now();
        did += 1;
    }
    all.sum.fetch_add(did, SeqCst);
    if all.done.fetch_add(1, SeqCst) + 1 == threads {
        all.end.set(Instant::now()).unwrap();
    }
}

pub fn yielding(trial: &Trial) -> Outcome {
    let threads = trial.threads;
    grow(trial, |n| {
        let all = Arc::new(Yielding {
            ready: Barrier::new(threads as usize),
            done: AtomicI64::new(0),
            sum: AtomicI64::new(0),
            begin: OnceLock::new(),
            end: OnceLock::new(),
        });
        let one = |all: Arc<Yielding>| go!(move || yielder(&all, threads, n));
        let made: Vec<_> = (0..threads).map(|_| one(all.clone())).collect();
        for one in made {
            one.join().unwrap();
        }
        let begin = *all.begin.get().unwrap();
        Outcome {
            time: all.end.get().unwrap().saturating_duration_since(begin),
            operations: threads * n,
            sum: all.sum.load(SeqCst),
            expected: threads * n,
            ..Outcome::default()
        }
    })
}

pub fn channel(trial: &Trial) -> Outcome {
    let pairs = (trial.threads / 2).max(1);
    timed(trial, |n| {
        let mut made = Vec::new();
        for _ in 0..pairs {
            let (there, at_other) = mpsc::channel::<i64>();
            let (back, here) = mpsc::channel::<i64>();
            go!(move || {
                while let Ok(value) = at_other.recv() {
                    back.send(value + 1).unwrap();
                }
            });
            made.push(go!(move || {
                let mut sum = 0;
                for i in 0..n {
                    there.send(i).unwrap();
                    sum += here.recv().unwrap();
                }
                sum
            }));
        }
        let sum = made.into_iter().map(|one| one.join().unwrap()).sum();
        (sum, pairs * (n * (n + 1) / 2), n * pairs)
    })
}

#[derive(Default)]
struct Turns {
    turn: Mutex<usize>, // whose it is
    changed: [Condvar; 2],
}

fn take_turns(all: &Turns, own: usize, n: i64) -> i64 {
    let mut sum = 0;
    for i in 0..n {
        let mut turn = all.turn.lock().unwrap();
        while *turn != own {
            turn = all.changed[own].wait(turn).unwrap();
        }
        sum += if own == 1 { i + 1 } else { 0 };
        *turn = 1 - own;
        all.changed[1 - own].notify_one();
    }
    sum
}

pub fn condition(trial: &Trial) -> Outcome {
    let pairs = (trial.threads / 2).max(1);
    timed(trial, |n| {
        let mut made = Vec::new();
        for _ in 0..pairs {
            let all = Arc::new(Turns::default());
            let other = all.clone();
            made.push(go!(move || take_turns(&other, 1, n)));
            made.push(go!(move || take_turns(&all, 0, n)));
        }
        let sum = made.into_iter().map(|one| one.join().unwrap()).sum();
        (sum, pairs * (n * (n + 1) / 2), n * pairs)
    })
}

const INSIDE: u32 = 50;
const OUTSIDE: u32 = 50;

pub fn mutex(trial: &Trial) -> Outcome {
    timed(trial, |n| {
        let lock = Mutex::new(0i64);
        for _ in 0..n {
            *lock.lock().unwrap() += 1;
        }
        (lock.into_inner().unwrap(), n, n)
    })
}

pub fn contended(trial: &Trial) -> Outcome {
    let threads = trial.threads;
    timed(trial, |n| {
        let lock = Arc::new(Mutex::new(0i64));
        let locker = |lock: Arc<Mutex<i64>>| {
            go!(move || {
                for _ in 0..n {
                    let mut sum = lock.lock().unwrap();
                    *sum += 1;
                    spend(INSIDE);
                    drop(sum);
                    spend(OUTSIDE);
                }
            })
        };
        let made: Vec<_> = (0..threads).map(|_| locker(lock.clone())).collect();
        for one in made {
            one.join().unwrap();
        }
        let sum = *lock.lock().unwrap();
        (sum, n * threads, n * threads)
    })
}

// ---- how late ----

const SLEEP_LEAST: i64 = 100_000;
const SLEEP_MOST: i64 = 10_000_000;
const REQUEST_APART: i64 = 1_000_000;
const REQUEST_WORK: u32 = 2_000;
const REQUESTERS: i64 = 4;

fn sleeping(until: Instant, mut state: i64) -> Vec<i64> {
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
        let left = moment.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            coroutine::sleep(left);
        }
        late.push(moment.elapsed().as_nanos() as i64);
    }
    late
}

fn sleepers(trial: &Trial, count: i64, hogs: i64) -> Outcome {
    let begin = Instant::now();
    let until = begin + Duration::from_millis(trial.size as u64);
    let mut state = 1i64;
    let mut made = Vec::new();
    for _ in 0..count {
        state = state * 16807 % 2147483647;
        let own = if hogs > 0 { 0 } else { state };
        made.push(go!(move || sleeping(until, own)));
    }
    let hog = || {
        go!(move || {
            while Instant::now() < until {
                spend(1000);
            }
        })
    };
    let hogs: Vec<_> = (0..hogs).map(|_| hog()).collect();
    let mut outcome = Outcome { expected: count, ..Outcome::default() };
    for one in made {
        let late = one.join().unwrap();
        outcome.sum += i64::from(!late.is_empty());
        outcome.late.extend(late);
    }
    for one in hogs {
        one.join().unwrap();
    }
    outcome.time = begin.elapsed();
    outcome.operations = outcome.late.len() as i64;
    outcome.check(trial);
    outcome
}

pub fn sleep(trial: &Trial) -> Outcome {
    sleepers(trial, trial.threads, 0)
}

/// Who computes does so on a worker, as a program would that knows no better.
pub fn requests(trial: &Trial) -> Outcome {
    sleepers(trial, REQUESTERS, trial.threads * trial.workers)
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

#[derive(Default)]
struct Parking {
    state: Mutex<(i64, bool)>, // how many are there, and whether it is over
    arrived: Condvar,
    leave: Condvar,
}

fn park(all: &Parking, threads: i64) -> i64 {
    let mut state = all.state.lock().unwrap();
    state.0 += 1;
    if state.0 == threads {
        all.arrived.notify_one();
    }
    while !state.1 {
        state = all.leave.wait(state).unwrap();
    }
    // One wakes the next: a broadcast is not what is measured here.
    all.leave.notify_one();
    1
}

/// Who creates waits to be told: while one yields, those that were spawned do not begin.
pub fn parked(trial: &Trial) -> Outcome {
    let (all, threads) = (Arc::new(Parking::default()), trial.threads);
    let one = |all: Arc<Parking>| go!(move || park(&all, threads));
    let (before, begin) = (memory(), Instant::now());
    let made: Vec<_> = (0..threads).map(|_| one(all.clone())).collect();
    let mut state = all.state.lock().unwrap();
    while state.0 < threads {
        state = all.arrived.wait(state).unwrap();
    }
    drop(state);
    let mut outcome = Outcome {
        time: begin.elapsed(),
        operations: trial.threads,
        expected: trial.threads,
        bytes: Some((memory() - before) as f64 / trial.threads as f64),
        ..Outcome::default()
    };
    all.state.lock().unwrap().1 = true;
    all.leave.notify_one();
    outcome.sum = made.into_iter().map(|one| one.join().unwrap()).sum();
    outcome.check(trial);
    outcome
}
