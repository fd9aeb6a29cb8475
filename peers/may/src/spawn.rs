// SPDX-License-Identifier: Apache-2.0
//
// Coroutines that are made for a piece of work and joined, as spawn.hpp of peers/cpp.
use super::{timed, Outcome, Trial};
use may::go;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::Arc;

pub fn create(trial: &Trial) -> Outcome {
    timed(trial, |n| {
        let sum = Arc::new(AtomicI64::new(0));
        for _ in 0..n {
            let own = sum.clone();
            go!(move || own.fetch_add(1, Relaxed)).join().unwrap();
        }
        (sum.load(Relaxed), n, n)
    })
}

pub fn batch(trial: &Trial) -> Outcome {
    let threads = trial.threads;
    timed(trial, |n| {
        let sum = Arc::new(AtomicI64::new(0));
        for _ in 0..n {
            let one = |own: Arc<AtomicI64>| go!(move || own.fetch_add(1, Relaxed));
            let all: Vec<_> = (0..threads).map(|_| one(sum.clone())).collect();
            for one in all {
                one.join().unwrap();
            }
        }
        (sum.load(Relaxed), n * threads, n * threads)
    })
}

fn skynet_node(first: i64, size: i64) -> i64 {
    if size == 1 {
        return first;
    }
    let part = size / 10;
    let child = |i: i64| go!(move || skynet_node(first + i * part, part));
    let all: Vec<_> = (0..10).map(child).collect();
    all.into_iter().map(|one| one.join().unwrap()).sum()
}

pub fn skynet(trial: &Trial) -> Outcome {
    let (mut threads, mut leaves) = (0, 1);
    while leaves < trial.threads {
        leaves *= 10;
        threads += leaves;
    }
    timed(trial, |n| {
        let sum = (0..n).map(|_| skynet_node(0, leaves)).sum();
        (sum, n * (leaves * (leaves - 1) / 2), n * threads)
    })
}

fn fib(n: i64) -> i64 {
    if n < 2 {
        return n;
    }
    let left = go!(move || fib(n - 1));
    let right = fib(n - 2);
    left.join().unwrap() + right
}

pub fn fibonacci(trial: &Trial) -> Outcome {
    let (mut value, mut next) = (0i64, 1i64);
    for _ in 0..trial.size {
        (value, next) = (next, value + next);
    }
    timed(trial, |n| {
        let sum = (0..n).map(|_| fib(trial.size)).sum();
        (sum, n * value, n * (next - 1).max(1))
    })
}

const QUEENS_ROWS: u32 = 3;
const QUEENS: [i64; 13] = [1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200];

fn queens_alone(all: u32, columns: u32, left: u32, right: u32) -> i64 {
    if columns == all {
        return 1;
    }
    let (mut free, mut found) = (all & !(columns | left | right), 0);
    while free != 0 {
        let place = free & free.wrapping_neg();
        free &= free - 1;
        found += queens_alone(all, columns | place, (left | place) << 1, (right | place) >> 1);
    }
    found
}

fn queens_row(all: u32, columns: u32, left: u32, right: u32, row: u32) -> (i64, i64) {
    if row == QUEENS_ROWS || columns == all {
        return (queens_alone(all, columns, left, right), 0);
    }
    let mut made = Vec::new();
    let mut free = all & !(columns | left | right);
    while free != 0 {
        let place = free & free.wrapping_neg();
        free &= free - 1;
        made.push(go!(move || {
            queens_row(all, columns | place, (left | place) << 1, (right | place) >> 1, row + 1)
        }));
    }
    let (mut found, mut threads) = (0, 0);
    for one in made {
        let (f, t) = one.join().unwrap();
        found += f;
        threads += t + 1;
    }
    (found, threads)
}

pub fn queens(trial: &Trial) -> Outcome {
    let size = trial.size.min(12);
    timed(trial, |n| {
        let (mut sum, mut threads) = (0, 0);
        for _ in 0..n {
            let (found, made) = queens_row((1 << size) - 1, 0, 0, 0, 0);
            sum += found;
            threads += made;
        }
        (sum, n * QUEENS[size as usize], threads.max(1))
    })
}

fn add_up(times: i64) -> i64 {
    let mut sum = 0;
    for _ in 0..times {
        sum = std::hint::black_box(sum + 1);
    }
    sum
}

pub fn increments(trial: &Trial) -> Outcome {
    let (threads, size) = (trial.threads, trial.size);
    timed(trial, |n| {
        let mut sum = 0;
        for _ in 0..n {
            let all: Vec<_> = (0..threads).map(|_| go!(move || add_up(size))).collect();
            sum += all.into_iter().map(|one| one.join().unwrap()).sum::<i64>();
        }
        (sum, n * threads * size, n * threads)
    })
}
