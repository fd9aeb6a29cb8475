// SPDX-License-Identifier: Apache-2.0
//
// How late virtual threads run that sleep until a moment, as late.hpp of peers/cpp.
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

final class Late {
    private static final long SLEEP_LEAST = 100_000;
    private static final long SLEEP_MOST = 10_000_000;
    private static final long REQUEST_APART = 1_000_000;
    private static final int REQUEST_WORK = 2_000;
    private static final int REQUESTERS = 4;

    private Late() {
    }

    private static void sleeping(long until, long state, List<Long> late)
            throws InterruptedException {
        long moment = System.nanoTime();
        // Once at least: who starts late has been late.
        do {
            long apart = REQUEST_APART;
            if (state != 0) {
                state = state * 48271 % 2147483647;
                apart = SLEEP_LEAST + state % (SLEEP_MOST - SLEEP_LEAST);
            } else {
                Sync.spend(REQUEST_WORK);
            }
            moment += apart;
            long left = moment - System.nanoTime();
            if (left > 0) {
                Thread.sleep(Duration.ofNanos(left));
            }
            late.add(Math.max(System.nanoTime() - moment, 0));
        } while (moment < until);
    }

    private static Work.Outcome sleepers(Work.Trial t, long count, long hogs)
            throws InterruptedException {
        long begin = System.nanoTime();
        long until = begin + t.size() * 1_000_000;
        long state = 1;
        List<Thread> all = new ArrayList<>();
        List<List<Long>> said = new ArrayList<>();
        for (long i = 0; i < count; i++) {
            state = state * 16807 % 2147483647;
            long own = hogs > 0 ? 0 : state;
            List<Long> late = new ArrayList<>();
            said.add(late);
            all.add(Thread.startVirtualThread(Sync.lasting(() -> sleeping(until, own, late))));
        }
        for (long i = 0; i < hogs; i++) {
            all.add(Thread.startVirtualThread(() -> {
                while (System.nanoTime() < until) {
                    Sync.spend(1000);
                }
            }));
        }
        for (Thread one : all) {
            one.join();
        }
        long ns = System.nanoTime() - begin;
        long[] late = said.stream().flatMap(List::stream).mapToLong(Long::longValue).toArray();
        long sum = said.stream().filter(own -> !own.isEmpty()).count();
        return new Work.Outcome(ns, late.length, sum, count, -1, late).check(t);
    }

    static Work.Outcome sleep(Work.Trial t) throws InterruptedException {
        return sleepers(t, t.threads(), 0);
    }

    /** Who computes does so on a carrier, as a program would that knows no better. */
    static Work.Outcome requests(Work.Trial t) throws InterruptedException {
        return sleepers(t, REQUESTERS, t.threads() * t.workers());
    }
}
