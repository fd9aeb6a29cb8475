// SPDX-License-Identifier: Apache-2.0
//
// The Java peer: a probe by the same protocol that knows the trials `ring` and `work`, with
// virtual threads, as Java has them since 21. swtch-probe-java (tools/peers.sh) starts it, on
// the trial's CPUs and with as many carriers as it has workers.
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

final class Peer {
    private static final String VERSION = System.getProperty("java.version");

    private Peer() {
    }

    static void fail(String where, String what) {
        System.out.println("{\"kind\":\"error\",\"schema\":1,\"errno\":22,\"where\":\"" + where
                + "\",\"what\":\"" + what + "\"}");
        System.out.flush();
        Runtime.getRuntime().halt(2);
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

    static long number(String trial, String field, long low, long high) {
        String text = member(trial, field);
        long value = text.matches("-?[0-9]{1,15}") ? Long.parseLong(text) : Long.MIN_VALUE;
        if (value < low || value > high) {
            fail(field, field + " is not a number from " + low + " to " + high);
        }
        return value;
    }

    static String choice(String trial, String field, String... known) {
        String text = member(trial, field);
        if (!List.of(known).contains(text)) {
            fail(field, "unknown " + field + "; one of " + String.join(", ", known));
        }
        return text;
    }

    static String word(String trial, String field) {
        String text = member(trial, field).replaceAll("[^a-z0-9-]", "");
        return text.substring(0, Math.min(text.length(), 60));
    }

    /** The sample, with these members, and out: carriers are not waited for. */
    static void end(String members) {
        System.out.println("{\"kind\":\"sample\",\"schema\":1,\"model\":\"java\",\"version\":\"" + VERSION
                + "\",\"built\":\"javac, " + System.getProperty("java.vm.name") + " "
                + System.getProperty("java.vm.version") + "\"" + members + "}");
        System.out.println("{\"kind\":\"end\",\"schema\":1,\"samples\":1}");
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    public static void main(String[] args) throws Exception {
        System.out.println("{\"kind\":\"hello\",\"schema\":1,\"probe\":\"swtch-probe-java\",\"version\":\""
                + VERSION + "\",\"pid\":" + ProcessHandle.current().pid() + "}");
        String trial = new String(System.in.readNBytes(1 << 20), StandardCharsets.UTF_8);
        number(trial, "schema", 1, 1);
        String probe = choice(trial, "probe", "ring", "work");
        choice(trial, "model", "java");
        choice(trial, "policy", "other");
        if (!member(trial, "cpus").matches("\\[ *[0-9]+( *, *[0-9]+)* *\\]")) {
            fail("cpus", "cpus must name CPUs");
        }
        if (probe.equals("ring")) {
            Ring.perform(trial);
        } else {
            Work.perform(trial);
        }
    }
}
