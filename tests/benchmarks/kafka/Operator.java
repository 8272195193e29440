import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Scanner;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;

/**
 * What an operator asks of Kafka: a line of words each from stdin, answered by "done BEGAN_MS ENDED_MS".
 *
 * create PREFIX TOPICS PARTITIONS REPLICAS...  topics PREFIX-0 and so on; replicas of the partitions in turn, as 3,1,2 3,2,1
 * reassign TOPIC PARTITIONS REPLICAS           until no reassignment is under way
 * delete TOPIC
 * elect                                        the first replica of each partition
 */
public final class Operator {
    private static final int PAUSE_MS = 20;
    private static final int LIMIT_MS = 300_000;

    public static void main(String[] args) throws Exception {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", args[0],
            "default.api.timeout.ms", LIMIT_MS,
            "request.timeout.ms", LIMIT_MS - 1000);
        try (Admin admin = Admin.create(settings); Scanner lines = new Scanner(System.in)) {
            while (lines.hasNextLine()) {
                String[] words = lines.nextLine().trim().split(" ");
                long began = System.currentTimeMillis();
                switch (words[0]) {
                    case "create" -> create(admin, words);
                    case "reassign" -> reassign(admin, words);
                    case "delete" -> admin.deleteTopics(List.of(words[1])).all().get();
                    case "elect" -> elect(settings);
                    default -> throw new IllegalArgumentException(words[0]);
                }
                System.out.println("done " + began + " " + System.currentTimeMillis());
            }
        }
    }

    private static void create(Admin admin, String[] words) throws Exception {
        int topics = Integer.parseInt(words[2]);
        int partitions = Integer.parseInt(words[3]);
        String[] replicas = Arrays.copyOfRange(words, 4, words.length);
        List<NewTopic> wanted = new ArrayList<>();
        for (int topic = 0; topic < topics; topic++) {
            Map<Integer, List<Integer>> rows = new HashMap<>();
            for (int row = 0; row < partitions; row++) {
                rows.put(row, brokers(replicas[row % replicas.length]));
            }
            wanted.add(new NewTopic(words[1] + "-" + topic, rows));
        }
        admin.createTopics(wanted).all().get();
    }

    private static void reassign(Admin admin, String[] words) throws Exception {
        Map<TopicPartition, Optional<NewPartitionReassignment>> targets = new HashMap<>();
        for (int row = 0; row < Integer.parseInt(words[2]); row++) {
            targets.put(
                new TopicPartition(words[1], row),
                Optional.of(new NewPartitionReassignment(brokers(words[3]))));
        }
        admin.alterPartitionReassignments(targets).all().get();
        while (!admin.listPartitionReassignments().reassignments().get().isEmpty()) {
            Thread.sleep(PAUSE_MS);
        }
    }

    /**
     * With a client of its own: one that knows an earlier controller gets an error for each partition, and does
     * not look for the next controller. Other results do not matter: none needed, or not in sync yet.
     */
    private static void elect(Map<String, Object> settings) throws Exception {
        try (Admin admin = Admin.create(settings)) {
            admin.electLeaders(ElectionType.PREFERRED, null).partitions().get();
        }
    }

    private static List<Integer> brokers(String text) {
        return Arrays.stream(text.split(",")).map(Integer::valueOf).toList();
    }
}
