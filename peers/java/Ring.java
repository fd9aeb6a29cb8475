// SPDX-License-Identifier: Apache-2.0
//
// The trial `ring` of the Java peer. Two virtual threads on one carrier hand over to one
// another, by yielding or through a queue without room. As in probes/switching/ring.c a
// batch of laps is timed as a whole and the first is warm-up; Java compiles while it runs,
// so the trial is done once before.
import java.util.Arrays;
import java.util.concurrent.SynchronousQueue;

final class Ring {
    private static long batches, laps;
    private static long[] took;

    private interface Lap {
        void run() throws InterruptedException;
    }

    private static void timed(Lap lap) throws InterruptedException {
        long begin = System.nanoTime();
        for (long batch = 0; batch <= batches; batch++) {
            for (long i = 0; i < laps; i++) {
                lap.run();
            }
            long now = System.nanoTime();
            if (batch > 0) {
                took[(int) batch - 1] = now - begin;
            }
            begin = now;
        }
    }

    private static Runnable lasting(Lap body) {
        return () -> {
            try {
                body.run();
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        };
    }

    private static void perform(boolean channel) throws InterruptedException {
        long all = laps * (batches + 1);
        SynchronousQueue<Integer> there = new SynchronousQueue<>();
        SynchronousQueue<Integer> back = new SynchronousQueue<>();
        Thread other = Thread.startVirtualThread(lasting(() -> {
            for (long i = 0; i < all; i++) {
                if (channel) {
                    back.put(there.take());
                } else {
                    Thread.yield();
                }
            }
        }));
        Thread own = Thread.startVirtualThread(lasting(() -> timed(() -> {
            if (channel) {
                there.put(1);
                back.take();
            } else {
                Thread.yield();
            }
        })));
        own.join();
        other.join();
    }

    private static double each(double share) {
        int rank = (int) Math.ceil(share * took.length);
        return (double) took[Math.max(rank, 1) - 1] / (2 * laps);
    }

    static void perform(String trial) throws InterruptedException {
        boolean channel = Peer.choice(trial, "by", "yield", "channel").equals("channel");
        Peer.number(trial, "members", 2, 2);
        batches = Peer.number(trial, "batches", 1, 100000);
        laps = Peer.number(trial, "laps", 1, 10000000);
        took = new long[(int) batches];
        perform(channel);
        perform(channel);
        long wall = Arrays.stream(took).sum();
        Arrays.sort(took);
        Peer.end(",\"wall_ns\":" + wall + ",\"passes\":" + 2 * laps * (batches + 1)
                + ",\"each_p10_ns\":" + each(0.1) + ",\"each_p50_ns\":" + each(0.5)
                + ",\"each_p90_ns\":" + each(0.9) + ",\"each_p99_ns\":" + each(0.99));
    }
}
