// SPDX-License-Identifier: Apache-2.0
//
// The Java peer: a probe by the same protocol that knows the trial `ring`. Two virtual
// threads on one carrier hand over to one another, by yielding or through a queue
// without room. As in probes/switching/ring.c a batch of laps is timed as a whole and the first
// is warm-up; Java compiles while it runs, so the trial is done once before.
//
// swtch-probe-java (tools/peers.sh) starts it, on the trial's CPU and with one carrier.
// Virtual threads are made by their name, so that a compiler of 17 is enough; to run
// it takes 21.
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.SynchronousQueue;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

public final class Ring {
    private static final String VERSION = System.getProperty("java.version");

    private static long batches, laps;
    private static long[] took;

    private interface Lap {
        void run() throws InterruptedException;
    }

    private static void fail(String where, String what) {
        System.out.println("{\"kind\":\"error\",\"schema\":1,\"errno\":22,\"where\":\"" + where
                + "\",\"what\":\"" + what + "\"}");
        System.exit(2);
    }

    /** The member of the trial as it stands there; members are flat, but for cpus. */
    private static String member(String trial, String field) {
        Matcher found = Pattern.compile("\"" + field + "\"\\s*:\\s*(\"([^\"]*)\"|-?[0-9]+|\\[[^\\]]*\\])")
                .matcher(trial);
        if (!found.find()) {
            fail(field, "the trial has no " + field);
        }
        return found.group(2) != null ? found.group(2) : found.group(1);
    }

    private static long number(String trial, String field, long low, long high) {
        String text = member(trial, field);
        long value = text.matches("-?[0-9]{1,15}") ? Long.parseLong(text) : Long.MIN_VALUE;
        if (value < low || value > high) {
            fail(field, field + " is not a number from " + low + " to " + high);
        }
        return value;
    }

    private static String choice(String trial, String field, String... known) {
        String text = member(trial, field);
        if (!List.of(known).contains(text)) {
            fail(field, "unknown " + field + "; one of " + String.join(", ", known));
        }
        return text;
    }

    private static Thread virtual(Runnable body) throws ReflectiveOperationException {
        Method start = Thread.class.getMethod("startVirtualThread", Runnable.class);
        return (Thread) start.invoke(null, body);
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

    private static void perform(boolean channel) throws Exception {
        long all = laps * (batches + 1);
        SynchronousQueue<Integer> there = new SynchronousQueue<>();
        SynchronousQueue<Integer> back = new SynchronousQueue<>();
        Thread other = virtual(lasting(() -> {
            for (long i = 0; i < all; i++) {
                if (channel) {
                    back.put(there.take());
                } else {
                    Thread.yield();
                }
            }
        }));
        Thread own = virtual(lasting(() -> timed(() -> {
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

    public static void main(String[] args) throws Exception {
        System.out.println("{\"kind\":\"hello\",\"schema\":1,\"probe\":\"swtch-probe-java\",\"version\":\""
                + VERSION + "\",\"pid\":" + ProcessHandle.current().pid() + "}");
        String trial = new String(System.in.readNBytes(1 << 20), StandardCharsets.UTF_8);
        number(trial, "schema", 1, 1);
        choice(trial, "probe", "ring");
        choice(trial, "model", "java");
        choice(trial, "policy", "other");
        boolean channel = choice(trial, "by", "yield", "channel").equals("channel");
        number(trial, "members", 2, 2);
        batches = number(trial, "batches", 1, 100000);
        laps = number(trial, "laps", 1, 10000000);
        took = new long[(int) batches];
        perform(channel);
        perform(channel);
        long wall = Arrays.stream(took).sum();
        Arrays.sort(took);
        System.out.println("{\"kind\":\"sample\",\"schema\":1,\"model\":\"java\",\"wall_ns\":" + wall
                + ",\"passes\":" + 2 * laps * (batches + 1) + ",\"each_p10_ns\":" + each(0.1)
                + ",\"each_p50_ns\":" + each(0.5) + ",\"each_p90_ns\":" + each(0.9)
                + ",\"each_p99_ns\":" + each(0.99) + ",\"version\":\"" + VERSION + "\"}");
        System.out.println("{\"kind\":\"end\",\"schema\":1,\"samples\":1}");
    }
}
