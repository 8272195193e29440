import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Base64;
import kafka.zk.BrokerIdZNode;
import kafka.zk.ControllerZNode;
import kafka.zk.ReassignPartitionsZNode;
import kafka.zk.TopicPartitionStateZNode;
import kafka.zk.TopicZNode;
import org.apache.zookeeper.data.Stat;

/** Reads payloads with Kafka's own decoders: a line of input has kind, name and base64 of one. */
public class Reader {
    public static void main(String[] arguments) throws Exception {
        var lines = new BufferedReader(new InputStreamReader(System.in));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            System.out.println(read(words[0], words[1], Base64.getDecoder().decode(words[2])));
        }
    }

    private static String read(String kind, String name, byte[] data) {
        try {
            return switch (kind) {
                case "broker" -> {
                    var found = BrokerIdZNode.decode(Integer.parseInt(name), data);
                    yield found.broker() + " " + found.broker().rack() + " " + found.jmxPort();
                }
                case "topic" -> {
                    var found = TopicZNode.decode(name, data);
                    yield found.topicId().get() + " " + found.assignment().size();
                }
                case "state" -> TopicPartitionStateZNode.decode(data, new Stat()).get().toString();
                case "controller" -> ControllerZNode.decode(data).get().toString();
                default -> throw new IllegalArgumentException(kind);
            };
        } catch (RuntimeException error) {
            return "failed: " + error;
        }
    }
}
