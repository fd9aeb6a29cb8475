// SPDX-License-Identifier: Apache-2.0
//! rust_threads THREADS: channels, Mutex with Condvar, RwLock, Barrier, scoped threads, park and a
//! panic that is caught by join. For `uthread-run`; it panics, with exit status 101, where
//! something is wrong.
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Barrier, Condvar, Mutex, RwLock};
use std::thread;

const ITEMS: u64 = 60_000;

fn channels(n: u64) {
    let (put, take) = sync_channel::<u64>(64);
    let each = ITEMS / n;
    let makers: Vec<_> = (0..n)
        .map(|_| {
            let put = put.clone();
            thread::spawn(move || (1..=each).for_each(|k| put.send(k).unwrap()))
        })
        .collect();
    drop(put);
    let sum: u64 = take.iter().sum();
    makers.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(sum, n * (each * (each + 1) / 2));
}

fn turns(n: u64) {
    let turn = Arc::new((Mutex::new(0u64), Condvar::new()));
    let all: Vec<_> = (0..n)
        .map(|me| {
            let turn = Arc::clone(&turn);
            thread::spawn(move || {
                for _ in 0..5_000 / n {
                    let mut now = turn.0.lock().unwrap();
                    while *now % n != me {
                        now = turn.1.wait(now).unwrap();
                    }
                    *now += 1;
                    turn.1.notify_all();
                }
            })
        })
        .collect();
    all.into_iter().for_each(|t| t.join().unwrap());
    assert_eq!(*turn.0.lock().unwrap(), 5_000 / n * n);
}

fn table(n: u64) {
    let table = RwLock::new(vec![0u64; 16]);
    let barrier = Barrier::new(n as usize);
    thread::scope(|scope| {
        for me in 0..n {
            let (table, barrier) = (&table, &barrier);
            scope.spawn(move || {
                barrier.wait();
                for k in 0..ITEMS / n {
                    if k % 16 == me % 16 {
                        table.write().unwrap().iter_mut().for_each(|x| *x += 1);
                    } else {
                        let now = table.read().unwrap();
                        assert_eq!(now.first(), now.last());
                    }
                }
            });
        }
    });
}

fn parks_and_panics() {
    let sleeper = thread::spawn(|| {
        thread::park();
        std::panic::resume_unwind(Box::new(7u64));
    });
    sleeper.thread().unpark();
    let fate = sleeper.join().unwrap_err();
    assert_eq!(fate.downcast_ref::<u64>(), Some(&7));
}

fn main() {
    let n = std::env::args().nth(1).map_or(2, |n| n.parse().unwrap());
    channels(n);
    turns(n);
    table(n);
    (0..200).for_each(|_| parks_and_panics());
}
