// SPDX-License-Identifier: Apache-2.0
//
// The trial `work` of the Java peer, as peers/cpp/work.hpp has it: batches grow until one takes
// long enough, a sum that is wrong ends everything. Java compiles while it runs, so all of it
// is done for a second before; not `parked`, which is of memory that nobody has touched. Its
// pieces are in Spawn.java, of threads that are made for some work, Sync.java, of threads that
// hand over and wait, and Late.java, of threads that sleep.
import java.util.Arrays;

final class Work {
    private static final long WARM_NS = 1_000_000_000;

    private Work() {
    }

    record Trial(String work, long threads, long size, long workers, long spanNs) {
    }

    /** late: ns, each time somebody was to run; bytes: of memory, each, or negative. */
    record Outcome(long ns, long operations, long sum, long expected, double bytes, long[] late) {
        Outcome(long ns, long operations, long sum, long expected) {
            this(ns, operations, sum, expected, -1, new long[0]);
        }

        Outcome check(Trial t) {
            if (sum != expected) {
                Peer.fail("result", t.work + " gave " + sum + " instead of " + expected);
            }
            return this;
        }
    }

    interface Batch {
        Outcome of(long n) throws InterruptedException;
    }

    /** Gives the sum of n times what is done. */
    interface Doing {
        long times(long n) throws InterruptedException;
    }

    static Outcome grow(Trial t, Batch batch) throws InterruptedException {
        long n = 1;
        for (boolean warm = false;; warm = true) {
            Outcome o = batch.of(n).check(t);
            if (warm && o.ns >= t.spanNs) {
                return o;
            }
            double factor = 1.3 * t.spanNs / Math.max(o.ns, 1);
            if (factor > 1) {
                n = (long) (n * Math.min(factor, 16)) + 1;
            }
        }
    }

    /** The same for work whose time is that of the call: n times `each` operations. */
    static Outcome timed(Trial t, long each, long right, Doing doing) throws InterruptedException {
        return grow(t, n -> {
            long begin = System.nanoTime();
            long sum = doing.times(n);
            return new Outcome(System.nanoTime() - begin, n * each, sum, n * right);
        });
    }

    private static Outcome piece(Trial t) throws InterruptedException {
        return switch (t.work) {
            case "yield" -> Sync.yielding(t);
            case "create", "create-main" -> Spawn.create(t);
            case "batch", "batch-main" -> Spawn.batch(t);
            case "skynet" -> Spawn.skynet(t);
            case "fibonacci" -> Spawn.fibonacci(t);
            case "queens" -> Spawn.queens(t);
            case "increments" -> Spawn.increments(t);
            case "channel" -> Sync.channel(t);
            case "condition" -> Sync.condition(t);
            case "mutex" -> Sync.mutex(t);
            case "contended" -> Sync.contended(t);
            case "sleep" -> Late.sleep(t);
            case "requests" -> Late.requests(t);
            case "parked" -> Sync.parked(t);
            default -> null;
        };
    }

    private static Outcome measured(Trial t) throws InterruptedException {
        long begin = System.nanoTime();
        Outcome o = piece(t);
        while (o != null && !t.work.equals("parked") && System.nanoTime() - begin < WARM_NS) {
            o = piece(t);
        }
        return o;
    }

    private static long quantile(long[] sorted, double share) {
        return sorted[Math.max((int) Math.ceil(share * sorted.length), 1) - 1];
    }

    static void perform(String trial) throws InterruptedException {
        Trial t = new Trial(Peer.word(trial, "work"), Peer.number(trial, "threads", 1, 10_000_000),
                Peer.number(trial, "size", 0, 100_000_000), Peer.number(trial, "workers", 1, 64),
                Peer.number(trial, "span_ns", 1, 10_000_000_000L));
        Peer.choice(trial, "tls", "own", "shared");
        Outcome[] done = new Outcome[1];
        if (t.work.endsWith("-main")) {
            done[0] = measured(t); // main is a thread of the system's
        } else {
            Thread.startVirtualThread(Sync.lasting(() -> done[0] = measured(t))).join();
        }
        Outcome o = done[0];
        if (o == null) {
            Peer.end(",\"wall_ns\":1,\"unmeasured\":\"it has no " + t.work + "\"");
            return;
        }
        StringBuilder said = new StringBuilder(",\"wall_ns\":" + Math.max(o.ns, 1)
                + ",\"operations\":" + o.operations + ",\"counter\":" + o.sum
                + ",\"expected\":" + o.expected);
        if (o.bytes >= 0) {
            said.append(",\"bytes\":").append(o.bytes);
        }
        if (o.late.length > 0) {
            Arrays.sort(o.late);
            said.append(",\"late_p50_ns\":").append(quantile(o.late, 0.5));
            said.append(",\"late_p99_ns\":").append(quantile(o.late, 0.99));
            said.append(",\"late_max_ns\":").append(quantile(o.late, 1));
        }
        Peer.end(said.toString());
    }
}
