import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.TimeUnit;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.config.Configurator;
import org.apache.pulsar.client.admin.PulsarAdmin;
import org.apache.pulsar.client.api.Authentication;
import org.apache.pulsar.client.api.AuthenticationFactory;
import org.apache.pulsar.client.api.PulsarClient;

/**
 * Signs in with each credential that a line of the input has, as a client and as PulsarAdmin, and
 * prints for each what came of it: a number of partitions, the tenants, or the name of the error.
 */
public class SignIn {
    private static final int LIMIT_S = 4;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Its libraries write to standard output, too.
        System.setOut(System.err);
        Configurator.setRootLevel(Level.OFF);
        ObjectMapper json = new ObjectMapper();
        BufferedReader in =
                new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode asked = json.readTree(line);
            String outcome;
            try {
                outcome = asked.get("act").asText().equals("client") ? client(asked) : admin(asked);
            } catch (Throwable met) {
                Throwable cause = met;
                while (cause.getCause() != null
                        && !cause.getClass().getName().contains("pulsar")) {
                    cause = cause.getCause();
                }
                outcome = cause.getClass().getSimpleName();
            }
            out.println(json.writeValueAsString(outcome));
        }
        System.exit(0);
    }

    private static String client(JsonNode asked) throws Exception {
        try (PulsarClient client =
                PulsarClient.builder()
                        .serviceUrl(asked.get("url").asText())
                        .authentication(authentication(asked))
                        .tlsTrustCertsFilePath(asked.get("authority").asText())
                        .operationTimeout(LIMIT_S, TimeUnit.SECONDS)
                        .lookupTimeout(LIMIT_S, TimeUnit.SECONDS)
                        .connectionTimeout(LIMIT_S, TimeUnit.SECONDS)
                        .build()) {
            String topic = asked.get("topic").asText();
            return "" + client.getPartitionsForTopic(topic).get(60, TimeUnit.SECONDS).size();
        }
    }

    private static String admin(JsonNode asked) throws Exception {
        try (PulsarAdmin admin =
                PulsarAdmin.builder()
                        .serviceHttpUrl(asked.get("url").asText())
                        .authentication(authentication(asked))
                        .tlsTrustCertsFilePath(asked.get("authority").asText())
                        .requestTimeout(LIMIT_S, TimeUnit.SECONDS)
                        .build()) {
            return String.join(",", admin.tenants().getTenants());
        }
    }

    private static Authentication authentication(JsonNode asked) {
        if (asked.has("token")) {
            return AuthenticationFactory.token(asked.get("token").asText());
        }
        if (asked.has("certificate")) {
            return AuthenticationFactory.TLS(
                    asked.get("certificate").asText(), asked.get("key").asText());
        }
        return null;
    }
}
