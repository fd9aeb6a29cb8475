// SPDX-License-Identifier: Apache-2.0
//
// Virtual threads that are started for a piece of work and joined, as spawn.hpp of peers/cpp.
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.util.concurrent.atomic.AtomicLong;

final class Spawn {
    private static final int QUEENS_ROWS = 3;
    private static final long[] QUEENS = {1, 1, 0, 0, 2, 10, 4, 40, 92, 352, 724, 2680, 14200};

    private Spawn() {
    }

    interface Sum {
        long get() throws InterruptedException;
    }

    /** A thread that computes a number, for who joins it. */
    static final class Computing implements Runnable {
        private final Sum sum;
        private Thread thread;
        private long value;

        private Computing(Sum sum) {
            this.sum = sum;
        }

        static Computing start(Sum sum) {
            Computing made = new Computing(sum);
            made.thread = Thread.startVirtualThread(made);
            return made;
        }

        @Override
        public void run() {
            try {
                value = sum.get();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }

        long join() throws InterruptedException {
            thread.join();
            return value;
        }
    }

    static Work.Outcome create(Work.Trial t) throws InterruptedException {
        return Work.timed(t, 1, 1, n -> {
            AtomicLong sum = new AtomicLong();
            for (long i = 0; i < n; i++) {
                Thread.startVirtualThread(sum::incrementAndGet).join();
            }
            return sum.get();
        });
    }

    static Work.Outcome batch(Work.Trial t) throws InterruptedException {
        Thread[] all = new Thread[(int) t.threads()];
        return Work.timed(t, all.length, all.length, n -> {
            AtomicLong sum = new AtomicLong();
            for (long i = 0; i < n; i++) {
                for (int k = 0; k < all.length; k++) {
                    all[k] = Thread.startVirtualThread(sum::incrementAndGet);
                }
                for (Thread one : all) {
                    one.join();
                }
            }
            return sum.get();
        });
    }

    private static long skynetNode(long first, long size) throws InterruptedException {
        if (size == 1) {
            return first;
        }
        Computing[] children = new Computing[10];
        long part = size / 10;
        long sum = 0;
        for (int i = 0; i < 10; i++) {
            long from = first + i * part;
            children[i] = Computing.start(() -> skynetNode(from, part));
        }
        for (Computing child : children) {
            sum += child.join();
        }
        return sum;
    }

    static Work.Outcome skynet(Work.Trial t) throws InterruptedException {
        long threads = 0;
        long leaves = 1;
        for (; leaves < t.threads(); leaves *= 10) {
            threads += leaves * 10;
        }
        long all = leaves;
        return Work.timed(t, threads, all * (all - 1) / 2, n -> {
            long sum = 0;
            for (long i = 0; i < n; i++) {
                sum += skynetNode(0, all);
            }
            return sum;
        });
    }

    private static long fib(long n) throws InterruptedException {
        if (n < 2) {
            return n;
        }
        Computing left = Computing.start(() -> fib(n - 1));
        long right = fib(n - 2);
        return left.join() + right;
    }

    static Work.Outcome fibonacci(Work.Trial t) throws InterruptedException {
        long value = 0;
        long next = 1;
        for (long i = 0; i < t.size(); i++) {
            long sum = value + next;
            value = next;
            next = sum;
        }
        return Work.timed(t, Math.max(next - 1, 1), value, n -> {
            long sum = 0;
            for (long i = 0; i < n; i++) {
                sum += fib(t.size());
            }
            return sum;
        });
    }

    private static long queensAlone(int all, int columns, int left, int right) {
        if (columns == all) {
            return 1;
        }
        long found = 0;
        for (int free = all & ~(columns | left | right); free != 0; free &= free - 1) {
            int place = free & -free;
            found += queensAlone(all, columns | place, (left | place) << 1, (right | place) >> 1);
        }
        return found;
    }

    /** So many solutions, and in `threads` so many threads. */
    private static long queensRow(int all, int columns, int left, int right, int row,
            AtomicLong threads) throws InterruptedException {
        if (row == QUEENS_ROWS || columns == all) {
            return queensAlone(all, columns, left, right);
        }
        Computing[] next = new Computing[32];
        int made = 0;
        for (int free = all & ~(columns | left | right); free != 0; free &= free - 1) {
            int place = free & -free;
            next[made++] = Computing.start(() -> queensRow(all, columns | place,
                    (left | place) << 1, (right | place) >> 1, row + 1, threads));
        }
        long found = 0;
        for (int i = 0; i < made; i++) {
            found += next[i].join();
        }
        threads.addAndGet(made);
        return found;
    }

    static Work.Outcome queens(Work.Trial t) throws InterruptedException {
        int size = (int) Math.min(t.size(), 12);
        return Work.grow(t, n -> {
            AtomicLong threads = new AtomicLong();
            long begin = System.nanoTime();
            long sum = 0;
            for (long i = 0; i < n; i++) {
                sum += queensRow((1 << size) - 1, 0, 0, 0, 0, threads);
            }
            return new Work.Outcome(System.nanoTime() - begin, Math.max(threads.get(), 1), sum,
                    n * QUEENS[size]);
        });
    }

    /** Opaque, so that it is not compiled into one addition, and no fence either. */
    private static final class Adder {
        private static final VarHandle SUM;

        static {
            try {
                SUM = MethodHandles.lookup().findVarHandle(Adder.class, "sum",
                        long.class);
            } catch (ReflectiveOperationException e) {
                throw new ExceptionInInitializerError(e);
            }
        }

        private long sum;

        long addUp(long times) {
            for (long i = 0; i < times; i++) {
                SUM.setOpaque(this, (long) SUM.getOpaque(this) + 1);
            }
            return sum;
        }
    }

    static Work.Outcome increments(Work.Trial t) throws InterruptedException {
        Computing[] all = new Computing[(int) t.threads()];
        return Work.timed(t, all.length, all.length * t.size(), n -> {
            long sum = 0;
            for (long i = 0; i < n; i++) {
                for (int k = 0; k < all.length; k++) {
                    all[k] = Computing.start(() -> new Adder().addUp(t.size()));
                }
                for (Computing one : all) {
                    sum += one.join();
                }
            }
            return sum;
        });
    }
}
