// SPDX-License-Identifier: Apache-2.0
//
// The echo server of the trial `io-echo` in tokio: a task for each connection, by
// tokio::net. probes/io/echo.c starts it (trial `io-server`) with a listening socket and a
// pipe, `control`: a byte begins the hogs, its end is the end.
//
// Hogs are threads of spawn_blocking(), as tokio's own documentation says of work that
// computes: a task that does not await is stopped by nobody, and as plain tasks they would
// have the runtime to themselves for ever.
use crate::{fail, number, say, VERSION};
use serde_json::{json, Value};
use std::fs::File;
use std::hint::black_box;
use std::io::Read;
use std::net::TcpListener as Plain;
use std::os::fd::FromRawFd;
use std::process::exit;
use std::thread;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle};

pub fn stay_on(cpus: &[i64]) {
    // SAFETY: a set of zeros is a valid one, and the kernel only reads it.
    let done = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for cpu in cpus {
            libc::CPU_SET(*cpu as usize, &mut set);
        }
        libc::sched_setaffinity(0, std::mem::size_of_val(&set), &set)
    };
    if done != 0 {
        fail("cpus", format!("CPUs {cpus:?} are not to be had"));
    }
}

fn hog() {
    let mut tally = 0u64;
    loop {
        tally = black_box(tally.wrapping_add(1));
    }
}

async fn serve_one(mut stream: TcpStream, bytes: usize) {
    let mut buffer = vec![0u8; bytes];
    loop {
        match stream.read(&mut buffer).await {
            Ok(n) if n > 0 => {
                if stream.write_all(&buffer[..n]).await.is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}

async fn accept_all(listener: TcpListener, bytes: usize) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                let _ = stream.set_nodelay(true);
                tokio::spawn(serve_one(stream, bytes));
            }
            Err(error) => fail("connections", format!("accept: {error}")),
        }
    }
}

// On a thread of its own: the runtime may have one only, and that one serves.
fn obey(mut control: File, hogs: i64, handle: Handle, workers: usize) {
    let mut order = [0u8; 1];
    while let Ok(1) = control.read(&mut order) {
        for _ in 0..hogs {
            handle.spawn_blocking(hog);
        }
    }
    say(json!({"kind": "sample", "schema": 1, "model": "tokio", "wall_ns": 1,
        "procs": workers, "version": VERSION}));
    say(json!({"kind": "end", "schema": 1, "samples": 1}));
    exit(0);
}

pub fn serve(trial: &Value) {
    let cpus: Vec<i64> = match trial["cpus"].as_array() {
        Some(list) => list.iter().filter_map(Value::as_i64).collect(),
        None => Vec::new(),
    };
    if cpus.is_empty() || cpus.iter().any(|n| !(0..1024).contains(n)) {
        fail("cpus", "cpus must name at least one CPU".into());
    }
    let descriptor = |field| number(trial, field, 3, 1_000_000) as i32;
    let (listen, control) = (descriptor("listen"), descriptor("control"));
    let bytes = number(trial, "buffer", 1, 1 << 20) as usize;
    let hogs = number(trial, "hogs", 0, 256);
    stay_on(&cpus);
    // SAFETY: both were opened for this program, which has no other use for them.
    let (plain, control) = unsafe { (Plain::from_raw_fd(listen), File::from_raw_fd(control)) };
    let runtime = match cpus.len() {
        1 => Builder::new_current_thread().enable_io().build(),
        n => Builder::new_multi_thread().worker_threads(n).enable_io().build(),
    }
    .unwrap();
    let handle = runtime.handle().clone();
    let workers = cpus.len();
    thread::spawn(move || obey(control, hogs, handle, workers));
    runtime.block_on(async move {
        // The socket does not block: the parent has made it so.
        let listener = plain.set_nonblocking(true).and_then(|()| TcpListener::from_std(plain));
        match listener {
            // A task: block_on()'s own future is looked at in another way.
            Ok(listener) => tokio::spawn(accept_all(listener, bytes)).await.unwrap(),
            Err(error) => fail("listen", format!("no listening socket: {error}")),
        }
    });
}
