// SPDX-License-Identifier: Apache-2.0
//
// Virtual threads that give up their turn, pass something to one another, lock and wait, as
// {yield,pass,lock,park}.hpp of peers/cpp.
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.SynchronousQueue;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

final class Sync {
    private static final int INSIDE = 50;
    private static final int OUTSIDE = 50;
    private static int sink;

    private Sync() {
    }

    interface Body {
        void run() throws InterruptedException;
    }

    static Runnable lasting(Body body) {
        return () -> {
            try {
                body.run();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        };
    }

    private static void start(List<Thread> all, Body body) {
        all.add(Thread.startVirtualThread(lasting(body)));
    }

    private static void join(List<Thread> all) throws InterruptedException {
        for (Thread one : all) {
            one.join();
        }
    }

    /** A little work that is not compiled away: Integer.MIN_VALUE is never reached. */
    static void spend(int rounds) {
        int x = rounds;
        for (int i = 0; i < rounds; i++) {
            x = x * 31 + i;
        }
        if (x == Integer.MIN_VALUE) {
            sink = x;
        }
    }

    static Work.Outcome yielding(Work.Trial t) throws InterruptedException {
        return Work.grow(t, n -> {
            AtomicLong there = new AtomicLong();
            AtomicLong done = new AtomicLong();
            AtomicLong sum = new AtomicLong();
            long[] clock = new long[2];
            List<Thread> all = new ArrayList<>();
            for (long i = 0; i < t.threads(); i++) {
                start(all, () -> {
                    if (there.incrementAndGet() == t.threads()) {
                        clock[0] = System.nanoTime();
                    }
                    while (there.get() < t.threads()) {
                        Thread.yield();
                    }
                    long did = 0;
                    for (; did < n; did++) {
                        Thread.yield();
                    }
                    sum.addAndGet(did);
                    if (done.incrementAndGet() == t.threads()) {
                        clock[1] = System.nanoTime();
                    }
                });
            }
            join(all);
            return new Work.Outcome(clock[1] - clock[0], t.threads() * n, sum.get(),
                    t.threads() * n);
        });
    }

    static Work.Outcome channel(Work.Trial t) throws InterruptedException {
        long pairs = Math.max(t.threads() / 2, 1);
        return Work.grow(t, n -> {
            AtomicLong sum = new AtomicLong();
            List<Thread> all = new ArrayList<>();
            long begin = System.nanoTime();
            for (long pair = 0; pair < pairs; pair++) {
                SynchronousQueue<Long> there = new SynchronousQueue<>();
                SynchronousQueue<Long> back = new SynchronousQueue<>();
                start(all, () -> {
                    for (long i = 0; i < n; i++) {
                        back.put(there.take() + 1);
                    }
                });
                start(all, () -> {
                    long own = 0;
                    for (long i = 0; i < n; i++) {
                        there.put(i);
                        own += back.take();
                    }
                    sum.addAndGet(own);
                });
            }
            join(all);
            return new Work.Outcome(System.nanoTime() - begin, pairs * n, sum.get(),
                    pairs * (n * (n + 1) / 2));
        });
    }

    private static final class Turns {
        private final ReentrantLock lock = new ReentrantLock();
        private final Condition[] changed = {lock.newCondition(), lock.newCondition()};
        private int turn; // whose it is

        long take(int own, long n) throws InterruptedException {
            long sum = 0;
            for (long i = 0; i < n; i++) {
                lock.lock();
                try {
                    while (turn != own) {
                        changed[own].await();
                    }
                    sum += own == 1 ? i + 1 : 0;
                    turn = 1 - own;
                    changed[1 - own].signal();
                } finally {
                    lock.unlock();
                }
            }
            return sum;
        }
    }

    static Work.Outcome condition(Work.Trial t) throws InterruptedException {
        long pairs = Math.max(t.threads() / 2, 1);
        return Work.grow(t, n -> {
            AtomicLong sum = new AtomicLong();
            List<Thread> all = new ArrayList<>();
            long begin = System.nanoTime();
            for (long pair = 0; pair < pairs; pair++) {
                Turns turns = new Turns();
                start(all, () -> sum.addAndGet(turns.take(1, n)));
                start(all, () -> sum.addAndGet(turns.take(0, n)));
            }
            join(all);
            return new Work.Outcome(System.nanoTime() - begin, pairs * n, sum.get(),
                    pairs * (n * (n + 1) / 2));
        });
    }

    static Work.Outcome mutex(Work.Trial t) throws InterruptedException {
        ReentrantLock lock = new ReentrantLock();
        return Work.timed(t, 1, 1, n -> {
            long sum = 0;
            for (long i = 0; i < n; i++) {
                lock.lock();
                try {
                    sum++;
                } finally {
                    lock.unlock();
                }
            }
            return sum;
        });
    }

    static Work.Outcome contended(Work.Trial t) throws InterruptedException {
        ReentrantLock lock = new ReentrantLock();
        return Work.timed(t, t.threads(), t.threads(), n -> {
            long[] sum = new long[1];
            List<Thread> all = new ArrayList<>();
            for (long i = 0; i < t.threads(); i++) {
                start(all, () -> {
                    for (long k = 0; k < n; k++) {
                        lock.lock();
                        try {
                            sum[0]++;
                            spend(INSIDE);
                        } finally {
                            lock.unlock();
                        }
                        spend(OUTSIDE);
                    }
                });
            }
            join(all);
            return sum[0];
        });
    }

    /** Bytes that are resident, and of page tables. */
    private static long memory() {
        long bytes = 0;
        try {
            for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
                if (line.startsWith("VmRSS:") || line.startsWith("VmPTE:")) {
                    bytes += Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024;
                }
            }
        } catch (IOException e) {
            Peer.fail("memory", "/proc/self/status cannot be read");
        }
        return bytes;
    }

    static Work.Outcome parked(Work.Trial t) throws InterruptedException {
        ReentrantLock lock = new ReentrantLock();
        Condition leave = lock.newCondition();
        boolean[] over = new boolean[1];
        long[] there = new long[1];
        long[] sum = new long[1];
        List<Thread> all = new ArrayList<>((int) t.threads());
        long before = memory();
        long begin = System.nanoTime();
        for (long i = 0; i < t.threads(); i++) {
            start(all, () -> {
                lock.lock();
                try {
                    there[0]++;
                    while (!over[0]) {
                        leave.await();
                    }
                    sum[0]++;
                    // One wakes the next: a broadcast is not what is measured here.
                    leave.signal();
                } finally {
                    lock.unlock();
                }
            });
        }
        for (boolean wait = true; wait;) {
            Thread.yield();
            lock.lock();
            wait = there[0] < t.threads();
            lock.unlock();
        }
        long ns = System.nanoTime() - begin;
        double bytes = (double) Math.max(memory() - before, 0) / t.threads();
        lock.lock();
        over[0] = true;
        leave.signal();
        lock.unlock();
        join(all);
        return new Work.Outcome(ns, t.threads(), sum[0], t.threads(), bytes, new long[0]).check(t);
    }
}
