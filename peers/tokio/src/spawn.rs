// SPDX-License-Identifier: Apache-2.0
//
// Tasks that are made for a piece of work and awaited, as spawn.hpp of peers/cpp.
use super::{timed, Outcome, Trial};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::sync::Arc;

async fn add_one(sum: Arc<AtomicI64>) {
    sum.fetch_add(1, Relaxed);
}

pub async fn create(trial: &Trial) -> Outcome {
    timed(trial, |n| async move {
        let sum = Arc::new(AtomicI64::new(0));
        for _ in 0..n {
            tokio::spawn(add_one(sum.clone())).await.unwrap();
        }
        (sum.load(Relaxed), n, n)
    })
    .await
}

pub async fn batch(trial: &Trial) -> Outcome {
    let threads = trial.threads;
    timed(trial, |n| async move {
        let sum = Arc::new(AtomicI64::new(0));
        for _ in 0..n {
            let all: Vec<_> = (0..threads).map(|_| tokio::spawn(add_one(sum.clone()))).collect();
            for one in all {
                one.await.unwrap();
            }
        }
        (sum.load(Relaxed), n * threads, n * threads)
    })
    .await
}

// A future that contains itself must be behind a pointer.
type Summing = Pin<Box<dyn Future<Output = i64> + Send>>;

fn skynet_node(first: i64, size: i64) -> Summing {
    Box::pin(async move {
        if size == 1 {
            return first;
        }
        let part = size / 10;
        let all: Vec<_> =
            (0..10).map(|i| tokio::spawn(skynet_node(first + i * part, part))).collect();
        let mut sum = 0;
        for one in all {
            sum += one.await.unwrap();
        }
        sum
    })
}

pub async fn skynet(trial: &Trial) -> Outcome {
    let (mut threads, mut leaves) = (0, 1);
    while leaves < trial.threads {
        leaves *= 10;
        threads += leaves;
    }
    timed(trial, |n| async move {
        let mut sum = 0;
        for _ in 0..n {
            sum += skynet_node(0, leaves).await;
        }
        (sum, n * (leaves * (leaves - 1) / 2), n * threads)
    })
    .await
}

fn fib(n: i64) -> Summing {
    Box::pin(async move {
        if n < 2 {
            return n;
        }
        let left = tokio::spawn(fib(n - 1));
        let right = fib(n - 2).await;
        left.await.unwrap() + right
    })
}

pub async fn fibonacci(trial: &Trial) -> Outcome {
    let (mut value, mut next) = (0i64, 1i64);
    for _ in 0..trial.size {
        (value, next) = (next, value + next);
    }
    let size = trial.size;
    timed(trial, |n| async move {
        let mut sum = 0;
        for _ in 0..n {
            sum += fib(size).await;
        }
        (sum, n * value, n * (next - 1).max(1))
    })
    .await
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

type Found = Pin<Box<dyn Future<Output = (i64, i64)> + Send>>;

fn queens_row(all: u32, columns: u32, left: u32, right: u32, row: u32) -> Found {
    Box::pin(async move {
        if row == QUEENS_ROWS || columns == all {
            return (queens_alone(all, columns, left, right), 0);
        }
        let mut tasks = Vec::new();
        let mut free = all & !(columns | left | right);
        while free != 0 {
            let place = free & free.wrapping_neg();
            free &= free - 1;
            let next =
                queens_row(all, columns | place, (left | place) << 1, (right | place) >> 1, row + 1);
            tasks.push(tokio::spawn(next));
        }
        let (mut found, mut threads) = (0, 0);
        for one in tasks {
            let (f, t) = one.await.unwrap();
            found += f;
            threads += t + 1;
        }
        (found, threads)
    })
}

pub async fn queens(trial: &Trial) -> Outcome {
    let size = trial.size.min(12);
    timed(trial, |n| async move {
        let (mut sum, mut threads) = (0, 0);
        for _ in 0..n {
            let (found, made) = queens_row((1 << size) - 1, 0, 0, 0, 0).await;
            sum += found;
            threads += made;
        }
        (sum, n * QUEENS[size as usize], threads.max(1))
    })
    .await
}

async fn add_up(times: i64) -> i64 {
    let mut sum = 0;
    for _ in 0..times {
        sum = std::hint::black_box(sum + 1);
    }
    sum
}

pub async fn increments(trial: &Trial) -> Outcome {
    let (threads, size) = (trial.threads, trial.size);
    timed(trial, |n| async move {
        let mut sum = 0;
        for _ in 0..n {
            let all: Vec<_> = (0..threads).map(|_| tokio::spawn(add_up(size))).collect();
            for one in all {
                sum += one.await.unwrap();
            }
        }
        (sum, n * threads * size, n * threads)
    })
    .await
}
