package requestpurgatory.bench;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.GarbageCollectorMXBean;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;

/** What this process has used so far. */
final class ProcessUsage {
    private static final OperatingSystemMXBean SYSTEM =
        ManagementFactory.getPlatformMXBean(OperatingSystemMXBean.class);
    private static final Path STATUS = Path.of("/proc/self/status");
    private static final String PEAK_RESIDENT = "VmHWM:";
    private static final int COLLECTIONS_UNTIL_SETTLED = 5;

    private ProcessUsage() {
    }

    /** CPU time of all threads, the collector's and the compiler's among them. */
    static long cpuNanos() {
        return SYSTEM.getProcessCpuTime();
    }

    static long collectionMillis() {
        return ManagementFactory.getGarbageCollectorMXBeans().stream()
            .mapToLong(GarbageCollectorMXBean::getCollectionTime)
            .sum();
    }

    /** The most memory that was ever resident, or 0 where the system does not tell. */
    static long peakResidentBytes() throws IOException {
        if (!Files.exists(STATUS)) {
            return 0;
        }
        return Files.readAllLines(STATUS).stream()
            .filter(line -> line.startsWith(PEAK_RESIDENT))
            .map(line -> line.substring(PEAK_RESIDENT.length()).strip().split(" ")[0])
            .mapToLong(kibibytes -> Long.parseLong(kibibytes) * 1024)
            .findFirst()
            .orElse(0);
    }

    /** Bytes in the heap that are reachable: one collection leaves what reference handlers and finalizers still held. */
    static long reachableHeapBytes() throws InterruptedException {
        for (int i = 0; i < COLLECTIONS_UNTIL_SETTLED; i++) {
            System.gc();
            Thread.sleep(20);
        }
        return ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
    }
}
