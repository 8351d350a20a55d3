import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;

/** Two workers of a share group, which release every second record at its first delivery. */
public class ShareWorkers {
    public static void main(String[] arguments) throws Exception {
        String servers = arguments[0], topic = arguments[1], group = arguments[2];
        AtomicInteger left = new AtomicInteger(Integer.parseInt(arguments[3]));
        Thread[] workers = new Thread[2];
        for (int number = 0; number < workers.length; number++) {
            workers[number] = new Thread(() -> work(servers, topic, group, left));
            workers[number].start();
        }
        for (Thread worker : workers) {
            worker.join();
        }
    }

    private static void work(String servers, String topic, String group, AtomicInteger left) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        settings.put("group.id", group);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        try (KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of(topic));
            while (left.get() > 0) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    int deliveries = record.deliveryCount().get();
                    if (deliveries == 1 && Integer.parseInt(record.value()) % 2 == 1) {
                        consumer.acknowledge(record, AcknowledgeType.RELEASE);
                        continue;
                    }
                    consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                    left.decrementAndGet();
                    synchronized (System.out) {
                        System.out.println(record.value() + " " + deliveries);
                    }
                }
                consumer.commitSync().values().forEach(error -> error.ifPresent(each -> {
                    throw each;
                }));
            }
        }
    }
}
